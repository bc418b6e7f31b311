/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Wire formats and protocol constants, version 1.  No code.  Every field is
 * big-endian.  Documentation/protocol.rst is the specification; the section
 * numbers below are its.
 */
#ifndef MROCE_CORE_WIRE_H
#define MROCE_CORE_WIRE_H

#include "platform.h"

#define MROCE_WIRE_VERSION	1
#define MROCE_UDP_PORT		61791	/* default destination port */
#define MROCE_SPORT_MIN		49152	/* source ports of paths */
#define MROCE_SPORT_MAX		65535

/* Base header, 24 bytes, on every packet (1.3). */
struct mroce_base_hdr {
	u8 ver_type;		/* version 4 | enum mroce_type 4 */
	u8 flags;		/* MROCE_F_* */
	u8 path_id;		/* sender's path number, one direction */
	u8 demand;		/* queued bytes for this peer: 4b exponent, 4b mantissa, unit 4 KiB */
	__be32 dst_conn;	/* receiver's index and generation; 0 in HELLO */
	__be32 vtag;		/* receiver's random tag */
	__be16 path_gen;	/* +1 at each re-roll of the source port */
	u8 opcode;		/* DATA: enum mroce_op; CTRL: enum mroce_ctrl */
	u8 sflags;		/* MROCE_SF_* */
	__be32 path_psn;	/* number of this transmission on its path */
	__be32 tx_ts;		/* sender's clock, 64 ns units */
} __packed;

enum mroce_type {
	MROCE_T_DATA = 1,
	MROCE_T_ACK = 2,
	MROCE_T_PROBE = 3,
	MROCE_T_PROBE_RSP = 4,
	MROCE_T_CTRL = 5,
	MROCE_T_RESET = 6,
	MROCE_T_SNAK = 7,	/* stream blocks alone, for a QP that is not on the path's books */
	MROCE_T_DGRAM = 8,
	MROCE_T_END
};

#define MROCE_F_AR	0x80	/* acknowledge at once */
#define MROCE_F_RTX	0x40	/* not the first transmission of this stream packet */
#define MROCE_F_MOVED	0x20	/* on another path than its first transmission */
#define MROCE_F_TAIL	0x10	/* last packet queued on the path */
#define MROCE_F_PIGGY	0x08	/* DATA: an acknowledgement follows the base header */
#define MROCE_F_EXT	0x04	/* TLVs follow */
#define MROCE_F_RESV	0x03	/* must be zero */

#define MROCE_SF_FIRST		0x80	/* first packet of the message */
#define MROCE_SF_LAST		0x40	/* last packet of the message */
#define MROCE_SF_SOLICITED	0x20
#define MROCE_SF_RESV		0x1f	/* must be zero */

/* Stream opcodes of DATA packets (1.4); properties in opcode.c. */
enum mroce_op {
	MROCE_OP_SEND = 1,
	MROCE_OP_WRITE = 2,
	MROCE_OP_READ_REQ = 3,
	MROCE_OP_READ_RSP = 4,
	MROCE_OP_CMP_SWP = 5,
	MROCE_OP_FETCH_ADD = 6,
	MROCE_OP_ATOMIC_RSP = 7,
	MROCE_OP_END
};

/* Stream header, 16 bytes (1.4). */
struct mroce_stream_hdr {
	__be32 dst_qpn_flags;	/* QPN 24 | MROCE_HF_* 8 */
	__be32 src_qpn;		/* QPN 24 | reserved 8 */
	__be32 spsn;		/* number of this packet in its stream */
	__be32 msn;		/* number of its message in the request stream */
} __packed;

#define MROCE_HF_IMM	0x80	/* immediate follows */
#define MROCE_HF_INV	0x40	/* rkey to invalidate follows */
#define MROCE_HF_XRC	0x20	/* XRC SRQ number follows */
#define MROCE_HF_RESV	0x1f	/* must be zero */

/* Destination headers, one on every DATA packet (1.4). */
struct mroce_write_hdr {	/* WRITE, every packet */
	__be64 va;		/* start of the whole message */
	__be32 rkey;
	__be32 offset;		/* of this packet in the message */
	__be32 length;		/* of the whole message */
} __packed;

struct mroce_send_hdr {		/* SEND, every packet */
	__be32 rsn;		/* receive sequence number: which receive it matches */
	__be32 offset;
} __packed;

struct mroce_read_req_hdr {
	__be64 va;
	__be32 rkey;
	__be32 length;
} __packed;

struct mroce_read_rsp_hdr {	/* every packet */
	__be32 req_msn;		/* MSN of the READ that is answered */
	__be32 offset;
} __packed;

struct mroce_atomic_req_hdr {
	__be64 va;
	__be32 rkey;
	__be32 resv;
	__be64 operand1;	/* CMP_SWP: swap; FETCH_ADD: add */
	__be64 operand2;	/* CMP_SWP: compare; FETCH_ADD: 0 */
} __packed;

struct mroce_atomic_rsp_hdr {
	__be32 req_msn;
	__be32 resv;
	__be64 original;
} __packed;

/*
 * Optional 32-bit words after the destination header, in this order, when
 * flagged: immediate, rkey to invalidate, XRC SRQ number; and RSN for a WRITE
 * with MROCE_HF_IMM.
 */

/* Acknowledgement: base, connection part, path blocks, stream blocks (1.5). */
struct mroce_ack_hdr {
	__be32 rx_bytes;	/* received in all, modulo 2^32, 256-byte units */
	u8 n_path;		/* path blocks that follow */
	u8 n_stream;		/* stream blocks behind them */
	__be16 resv;
} __packed;

struct mroce_path_block {
	u8 path_id;
	u8 flags;		/* MROCE_PB_* */
	__be16 path_gen;
	__be32 max_psn;		/* highest received in this generation */
	__be32 ts_echo;		/* tx_ts of that packet */
	__be16 ack_delay;	/* since it came, 256 ns units */
	__be16 rate_hint;	/* for the plane: 11b mantissa, 5b exponent, 64 kb/s */
	__be32 rx_pkts;		/* received in this generation */
	__be32 ce_pkts;		/* of these marked CE */
	__be32 cum_psn;		/* all below are received */
	u8 sack[32];		/* bit i (byte i/8, bit i%8) = max_psn - i received */
	__be32 resv;
} __packed;

#define MROCE_PB_CE		0x01	/* the packet with max_psn was marked */
#define MROCE_PB_DUP		0x02	/* a PSN came twice */
#define MROCE_PB_RETIRED	0x04	/* block of the previous generation */

#define MROCE_HINT_NONE		0x0000
#define MROCE_HINT_UNLIMITED	0xffff

struct mroce_stream_block {
	__be32 qpn_syndrome;	/* QPN that gets the block 24 | kind 3, value 5 */
	__be32 msn_done;	/* all messages below are executed */
	__be32 word;		/* by kind: see enum mroce_sb_kind */
	__be32 base_spsn;	/* all below are received */
	__be64 vector;		/* bit i: base_spsn + 1 + i received */
} __packed;

enum mroce_sb_kind {
	MROCE_SB_PROGRESS = 0,	/* word: RSNs below are posted; all ones: SRQ */
	MROCE_SB_RNR = 1,	/* value: RNR timer code; word: MSN to resend */
	MROCE_SB_ERROR = 2,	/* value: enum mroce_nak; word: MSN that failed */
	MROCE_SB_RSP_PROGRESS = 3, /* response class; msn_done unused */
	MROCE_SB_NOT_READY = 4,	/* no such QP, or not yet ready; value: timer code */
	MROCE_SB_END
};

enum mroce_nak {
	MROCE_NAK_INV_REQ = 1,
	MROCE_NAK_REM_ACCESS = 2,
	MROCE_NAK_REM_OP = 3,
	MROCE_NAK_END
};

/* CTRL (sub-type in opcode). */
enum mroce_ctrl {
	MROCE_C_HELLO = 1,	/* struct mroce_hello + addresses */
	MROCE_C_HELLO_ACK = 2,	/* the same */
	MROCE_C_CHALLENGE = 3,	/* struct mroce_challenge */
	MROCE_C_CLOSE = 4,	/* no body */
	MROCE_C_CLOSE_ACK = 5,	/* struct mroce_close_ack */
	MROCE_C_BYE = 6,	/* no body */
	MROCE_C_SOLICIT = 7,	/* struct mroce_solicit: send me your stream block */
	MROCE_C_VERSION = 8,	/* no body: the answer to a HELLO of unknown version */
	MROCE_C_END
};

struct mroce_hello {
	u8 ver_min, ver_max;
	u8 tclass;		/* traffic class of the connection */
	u8 max_paths;		/* the sender of this uses, and takes, at most so many */
	__be32 conn_id;		/* what the peer shall put into dst_conn */
	__be32 vtag;		/* and into vtag */
	__be16 payload;		/* P: largest payload per packet, bytes */
	__be16 mtu;
	__be64 instance;	/* random number of this device registration */
	__be64 nonce;		/* random, of the sender's connection */
	__be64 echo_nonce;	/* HELLO_ACK: nonce of the HELLO that is answered */
	u8 msn_log2;		/* MSN window of the sender's QPs */
	u8 spsn_log2;		/* SPSN window */
	u8 n_addr;		/* struct mroce_hello_addr that follow, at most 16 */
	u8 ack_max;		/* packets per acknowledgement, at most */
	__be32 features;	/* 0 */
	__be16 rate_hint;
	__be16 resv;
	__be32 cookie_slot;	/* from CHALLENGE, else 0 */
	__be64 cookie;
} __packed;

struct mroce_hello_addr {
	u8 plane;
	u8 family;		/* 4 or 6 */
	__be16 mtu;
	__be32 speed;		/* Mb/s */
	u8 addr[16];		/* IPv4: first four bytes */
} __packed;

#define MROCE_MAX_PLANES 16

struct mroce_challenge {
	__be64 nonce;		/* of the HELLO */
	__be64 cookie;
	__be32 cookie_slot;
	__be32 resv;
} __packed;

struct mroce_close_ack {
	u8 refused;		/* 1: the peer still has QPs */
	u8 resv[7];
} __packed;

struct mroce_solicit {
	__be32 dst_qpn;		/* 24 bits: whose state is asked for */
	__be32 src_qpn;		/* 24 bits: who asks */
} __packed;

/* PROBE may be padded up to a full packet; PROBE_RSP never is. */
struct mroce_probe {
	__be64 value;		/* random: must come back */
} __packed;

struct mroce_probe_rsp {
	__be64 value;
	u8 path_id;		/* of the PROBE */
	u8 resv;
	__be16 path_gen;
	__be32 path_psn;
} __packed;

/* RESET: base header only; dst_conn and vtag are those of the packet answered. */

static_assert_core(sizeof(struct mroce_base_hdr) == 24, "base header");
static_assert_core(sizeof(struct mroce_stream_hdr) == 16, "stream header");
static_assert_core(sizeof(struct mroce_write_hdr) == 20, "WRITE header");
static_assert_core(sizeof(struct mroce_send_hdr) == 8, "SEND header");
static_assert_core(sizeof(struct mroce_read_req_hdr) == 16, "READ_REQ header");
static_assert_core(sizeof(struct mroce_read_rsp_hdr) == 8, "READ_RSP header");
static_assert_core(sizeof(struct mroce_atomic_req_hdr) == 32, "ATOMIC header");
static_assert_core(sizeof(struct mroce_atomic_rsp_hdr) == 16, "ATOMIC_RSP header");
static_assert_core(sizeof(struct mroce_ack_hdr) == 8, "ACK connection part");
static_assert_core(sizeof(struct mroce_path_block) == 64, "path block");
static_assert_core(sizeof(struct mroce_stream_block) == 24, "stream block");
static_assert_core(sizeof(struct mroce_hello) == 64, "HELLO");
static_assert_core(sizeof(struct mroce_hello_addr) == 24, "HELLO address");

/* Limits (1.3, 1.4, 3.2, 6.3). */
#define MROCE_SACK_BITS		256
#define MROCE_SPSN_WINDOW	4096	/* packets per stream and class */
#define MROCE_MSN_LOG2		8
#define MROCE_MSN_WINDOW	(1u << MROCE_MSN_LOG2)
#define MROCE_PSN_MAX_AHEAD	65536	/* of max_psn, plausible */
#define MROCE_MAX_PATHS		64	/* this implementation, per connection direction */
#define MROCE_MAX_MSG		(1u << 31)
#define MROCE_MAX_PAYLOAD	8192
#define MROCE_MIN_PAYLOAD	64

/*
 * Largest header in front of a payload: WRITE with immediate, SRQ number and
 * RSN.  Largest header of all: an atomic with an SRQ number.
 */
#define MROCE_MAX_PAYLOAD_HDR	(24 + 16 + 20 + 4 + 4 + 4)
#define MROCE_MAX_DATA_HDR	(24 + 16 + 32 + 4)	/* without an acknowledgement in it */
#define MROCE_PIGGY_BLOCKS	2	/* of each kind, at most, in a DATA packet */
#define MROCE_PIGGY_MAX		(8 + MROCE_PIGGY_BLOCKS * (64 + 24))
#define MROCE_PULL		320u	/* all headers of any packet lie in its first bytes */
static_assert_core(MROCE_MAX_DATA_HDR + MROCE_PIGGY_MAX <= MROCE_PULL, "headers");

#endif
