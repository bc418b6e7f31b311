/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The door: bytes to struct mroce_pkt, checked completely, once; and back.
 * Behind it code trusts the lengths, never the values' meaning.
 */
#ifndef MROCE_CORE_CODEC_H
#define MROCE_CORE_CODEC_H

#include "wire.h"

/* A packet in host order.  Fields that the packet does not have are 0. */
struct mroce_pkt {
	/* base */
	u8 type, flags, path_id, demand, opcode, sflags, hflags, resv;
	u16 path_gen;
	u16 hdr_len;		/* bytes in front of the payload */
	u16 piggy_len;		/* of these an acknowledgement's, behind the base header; 0: none */
	u32 payload_len;
	u32 dst_conn, vtag, path_psn, tx_ts;
	/* stream */
	u32 dst_qpn, src_qpn, spsn, msn;
	/* destination */
	u64 va;
	u64 op1, op2;		/* atomic operands; op1: original value of ATOMIC_RSP */
	u32 rkey;
	u32 offset;
	u32 length;		/* whole message: WRITE, READ_REQ */
	u32 rsn;
	u32 req_msn;
	u32 imm, inv_rkey, srqn;	/* imm as carried: big-endian value, not swapped */
};

/* Path block in host order. */
struct mroce_ack_path {
	u8 path_id, flags;
	u16 gen;
	u32 max_psn, ts_echo;
	u16 ack_delay, rate_hint;
	u32 rx_pkts, ce_pkts, cum_psn;
	u64 sack[4];		/* bit i of word i/64 = max_psn - i received */
};

/* Stream block in host order. */
struct mroce_ack_stream {
	u32 qpn;
	u8 kind, value;
	u32 msn_done, word, base_spsn;
	u64 vector;
};

enum mroce_door {		/* why a packet was refused; each has a counter */
	MROCE_DOOR_OK = 0,
	MROCE_DOOR_SHORT,	/* shorter than its headers */
	MROCE_DOOR_VERSION,
	MROCE_DOOR_TYPE,
	MROCE_DOOR_OPCODE,
	MROCE_DOOR_FLAGS,	/* reserved bits, or flags its opcode does not know */
	MROCE_DOOR_LENGTH,	/* payload too long, or where none may be, or beyond the message */
	MROCE_DOOR_N
};

/*
 * mroce_parse - check and decode a packet's headers
 * @data: first bytes of the UDP payload; @avail of them are readable
 * @len: length of the whole UDP payload, @len >= @avail
 * @pkt: result; zeroed first, also on error.  From 24 bytes on the base header
 *	is decoded even if the packet is refused: a HELLO of another version
 *	(VERSION) can be told from the rest by type and opcode.
 *
 * @avail must cover min(@len, MROCE_PULL).  For DATA decodes base, stream and
 * destination headers and optional words, and sets hdr_len and payload_len;
 * with PIGGY also piggy_len: an acknowledgement body of at most
 * MROCE_PIGGY_BLOCKS blocks of each kind and at least one (LENGTH if not) lies
 * behind the base header, for mroce_parse_ack_counts().  For other types decodes the
 * base header and leaves hdr_len = 24 and payload_len = the rest.  EXT is not
 * negotiated in version 1, and PIGGY only for DATA: packets that have them are
 * refused (FLAGS).
 * Checks for DATA: opcode known; reserved bits 0; hflags allowed for the
 * opcode; payload only where allowed; payload_len <= MROCE_MAX_PAYLOAD;
 * offset + payload_len (no wrap) <= length for WRITE and <= MROCE_MAX_MSG for
 * all; FIRST set exactly if offset == 0; opcodes without offset have both
 * FIRST and LAST; length <= MROCE_MAX_MSG; WRITE: LAST set exactly if
 * offset + payload_len == length; only a packet with FIRST and LAST may be empty.
 * IMM and INV exclude each other (one completion cannot show both).  CTRL:
 * sub-type known.
 */
enum mroce_door mroce_parse(const u8 *data, u32 avail, u32 len,
			    struct mroce_pkt *pkt);

/*
 * Writes the headers of a DATA packet from @pkt; returns their length.  With
 * piggy_len sets PIGGY and leaves that room behind the base header for the
 * caller's acknowledgement.
 */
u32 mroce_build_data(u8 *buf, const struct mroce_pkt *pkt);

/* Length mroce_build_data() would return without an acknowledgement. */
u32 mroce_data_hdr_len(u8 opcode, u8 hflags);

/* Writes a base header (type, flags, opcode, conn, path fields of @pkt): 24 bytes. */
void mroce_build_base(u8 *buf, const struct mroce_pkt *pkt);

/*
 * An answer of one packet whose sender does not ask for an acknowledgement at
 * once: the requester's next packet will carry it (3.3).
 */
bool mroce_is_lazy(const struct mroce_pkt *p);

/* Length of a body with so many blocks. */
static inline u32 mroce_ack_len(u32 n_path, u32 n_stream)
{
	return sizeof(struct mroce_ack_hdr) + n_path * sizeof(struct mroce_path_block) +
	       n_stream * sizeof(struct mroce_stream_block);
}

/* Writes the connection part. */
void mroce_put_ack_hdr(u8 *body, u64 rx_bytes, u32 n_path, u32 n_stream);
/*
 * Acknowledgement bodies, behind the base header.  mroce_parse_ack_counts()
 * checks that @len holds exactly what the counts say (else -EINVAL).  The
 * i-th blocks are then read with the other two; i must be below the count.
 */
int mroce_parse_ack_counts(const u8 *body, u32 len, u32 *n_path, u32 *n_stream);
void mroce_get_path_block(const u8 *body, u32 i, struct mroce_ack_path *b);
void mroce_get_stream_block(const u8 *body, u32 n_path, u32 i,
			    struct mroce_ack_stream *b);
/* Each writes one block (64 or 24 bytes). */
void mroce_put_path_block(u8 *p, const struct mroce_ack_path *b);
void mroce_put_stream_block(u8 *p, const struct mroce_ack_stream *b);

/* demand byte: 4-bit exponent, 4-bit mantissa, unit 4 KiB, rounded up, saturating. */
u8 mroce_demand_encode(u64 bytes);
u64 mroce_demand_decode(u8 demand);
/*
 * rate hint: 11-bit mantissa (high bits), 5-bit exponent, unit 64000 b/s, rounded
 * down.  0 <-> NONE; any other rate encodes to neither NONE nor UNLIMITED
 * (saturating at both ends); UNLIMITED decodes to ~0.
 */
u16 mroce_hint_encode(u64 bps);
u64 mroce_hint_decode(u16 hint);

/* HELLO and HELLO_ACK bodies in host order. */
struct mroce_hello_addr_h {
	u8 plane, family;
	u16 mtu;
	u32 speed;
	u8 addr[16];
};

struct mroce_hello_h {
	u8 ver_min, ver_max, tclass, max_paths;
	u32 conn_id, vtag;
	u16 payload, mtu;
	u64 instance, nonce, echo_nonce;
	u8 msn_log2, spsn_log2, n_addr, ack_max;
	u32 features;
	u16 rate_hint;
	u32 cookie_slot;
	u64 cookie;
	struct mroce_hello_addr_h addr[MROCE_MAX_PLANES];
};

/*
 * Decodes and checks a HELLO body: length exactly 64 + 24 * n_addr, n_addr <=
 * 16, families 4 or 6, ver_min <= ver_max, conn_id != 0, payload a multiple of
 * 64 in 64..8192, msn_log2 in 4..12, spsn_log2 == 12, max_paths >= 1.
 * 0 or -EINVAL.
 */
int mroce_parse_hello(const u8 *body, u32 len, struct mroce_hello_h *h);
/* Writes it; returns the length (at most 64 + 24 * 16). */
u32 mroce_build_hello(u8 *body, const struct mroce_hello_h *h);

/*
 * Payload P for an MTU (IP packet size) and address family (1.4) with room for
 * MROCE_MAX_PAYLOAD_HDR; 0 if too small.
 */
u32 mroce_payload_for_mtu(u32 mtu, u8 family);

#endif
