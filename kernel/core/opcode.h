/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Properties of the stream opcodes: one table for requester, responder and tests (rule R3). */
#ifndef MROCE_CORE_OPCODE_H
#define MROCE_CORE_OPCODE_H

#include "wire.h"

enum mroce_class {
	MROCE_CLASS_REQ = 0,	/* SEND, WRITE, READ_REQ, atomics */
	MROCE_CLASS_RSP = 1,	/* READ_RSP, ATOMIC_RSP */
	MROCE_N_CLASS
};

#define MROCE_OPF_VALID		0x01
#define MROCE_OPF_RSP		0x02	/* response class */
#define MROCE_OPF_PAYLOAD	0x04	/* payload may follow; several packets per message */
#define MROCE_OPF_RECV		0x08	/* always consumes a receive (carries an RSN) */
#define MROCE_OPF_RECV_IMM	0x10	/* consumes one if HF_IMM is set (RSN word follows) */
#define MROCE_OPF_OFFSET	0x20	/* destination header has an offset */
#define MROCE_OPF_REPLY		0x40	/* is answered in the response class */

struct mroce_op_info {
	u8 flags;		/* MROCE_OPF_* */
	u8 dest_len;		/* bytes of the destination header */
	u8 hflags;		/* MROCE_HF_* that may be set */
	const char *name;
};

extern const struct mroce_op_info mroce_op_table[MROCE_OP_END];

/* Table row of @opcode; NULL if there is no such opcode. */
const struct mroce_op_info *mroce_op_info(u8 opcode);

#endif
