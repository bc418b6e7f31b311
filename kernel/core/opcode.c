// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

#include "opcode.h"

const struct mroce_op_info mroce_op_table[MROCE_OP_END] = {
	[MROCE_OP_SEND] = {
		.flags = MROCE_OPF_VALID | MROCE_OPF_PAYLOAD | MROCE_OPF_RECV | MROCE_OPF_OFFSET,
		.dest_len = sizeof(struct mroce_send_hdr),
		.hflags = MROCE_HF_IMM | MROCE_HF_INV | MROCE_HF_XRC,
		.name = "SEND",
	},
	[MROCE_OP_WRITE] = {
		.flags = MROCE_OPF_VALID | MROCE_OPF_PAYLOAD | MROCE_OPF_RECV_IMM |
			 MROCE_OPF_OFFSET,
		.dest_len = sizeof(struct mroce_write_hdr),
		.hflags = MROCE_HF_IMM | MROCE_HF_XRC,
		.name = "WRITE",
	},
	[MROCE_OP_READ_REQ] = {
		.flags = MROCE_OPF_VALID | MROCE_OPF_REPLY,
		.dest_len = sizeof(struct mroce_read_req_hdr),
		.hflags = MROCE_HF_XRC,
		.name = "READ_REQ",
	},
	[MROCE_OP_READ_RSP] = {
		.flags = MROCE_OPF_VALID | MROCE_OPF_RSP | MROCE_OPF_PAYLOAD | MROCE_OPF_OFFSET,
		.dest_len = sizeof(struct mroce_read_rsp_hdr),
		.name = "READ_RSP",
	},
	[MROCE_OP_CMP_SWP] = {
		.flags = MROCE_OPF_VALID | MROCE_OPF_REPLY,
		.dest_len = sizeof(struct mroce_atomic_req_hdr),
		.hflags = MROCE_HF_XRC,
		.name = "CMP_SWP",
	},
	[MROCE_OP_FETCH_ADD] = {
		.flags = MROCE_OPF_VALID | MROCE_OPF_REPLY,
		.dest_len = sizeof(struct mroce_atomic_req_hdr),
		.hflags = MROCE_HF_XRC,
		.name = "FETCH_ADD",
	},
	[MROCE_OP_ATOMIC_RSP] = {
		.flags = MROCE_OPF_VALID | MROCE_OPF_RSP,
		.dest_len = sizeof(struct mroce_atomic_rsp_hdr),
		.name = "ATOMIC_RSP",
	},
};

const struct mroce_op_info *mroce_op_info(u8 opcode)
{
	if (opcode >= MROCE_OP_END || !(mroce_op_table[opcode].flags & MROCE_OPF_VALID))
		return NULL;
	return &mroce_op_table[opcode];
}
