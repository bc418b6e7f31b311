// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

#include "codec.h"
#include "opcode.h"

#define HINT_UNIT	64000u	/* bits per second */
#define HINT_SAT	(MROCE_HINT_UNLIMITED - 0x20)	/* the largest number below it */

struct word {
	__be32 v;
} __packed;

static u32 get_word(const u8 **p)
{
	u32 v = be32_to_cpu(((const struct word *)*p)->v);

	*p += sizeof(struct word);
	return v;
}

static void put_word(u8 **p, u32 v)
{
	((struct word *)*p)->v = cpu_to_be32(v);
	*p += sizeof(struct word);
}

/* Optional words behind the destination header. */
static u32 opt_len(u8 opcode, u8 hflags)
{
	u32 n = 0;

	if (hflags & MROCE_HF_IMM)
		n += opcode == MROCE_OP_WRITE ? 8 : 4;
	if (hflags & MROCE_HF_INV)
		n += 4;
	if (hflags & MROCE_HF_XRC)
		n += 4;
	return n;
}

u32 mroce_data_hdr_len(u8 opcode, u8 hflags)
{
	const struct mroce_op_info *op = mroce_op_info(opcode);

	if (!op)
		return 0;
	return sizeof(struct mroce_base_hdr) + sizeof(struct mroce_stream_hdr) + op->dest_len +
	       opt_len(opcode, hflags);
}

static void get_base(const u8 *data, struct mroce_pkt *pkt)
{
	const struct mroce_base_hdr *h = (const struct mroce_base_hdr *)data;

	pkt->type = h->ver_type & 0x0f;
	pkt->flags = h->flags;
	pkt->path_id = h->path_id;
	pkt->demand = h->demand;
	pkt->dst_conn = be32_to_cpu(h->dst_conn);
	pkt->vtag = be32_to_cpu(h->vtag);
	pkt->path_gen = be16_to_cpu(h->path_gen);
	pkt->opcode = h->opcode;
	pkt->sflags = h->sflags;
	pkt->path_psn = be32_to_cpu(h->path_psn);
	pkt->tx_ts = be32_to_cpu(h->tx_ts);
}

/* False: a reserved bit is set. */
static bool get_stream(const u8 *p, struct mroce_pkt *pkt)
{
	const struct mroce_stream_hdr *h = (const struct mroce_stream_hdr *)p;
	u32 dst = be32_to_cpu(h->dst_qpn_flags);
	u32 src = be32_to_cpu(h->src_qpn);

	pkt->dst_qpn = dst >> 8;
	pkt->hflags = dst & 0xff;
	pkt->src_qpn = src >> 8;
	pkt->spsn = be32_to_cpu(h->spsn);
	pkt->msn = be32_to_cpu(h->msn);
	return !(src & 0xff);
}

static bool get_atomic(const u8 *p, struct mroce_pkt *pkt)
{
	const struct mroce_atomic_req_hdr *h = (const struct mroce_atomic_req_hdr *)p;

	pkt->va = be64_to_cpu(h->va);
	pkt->rkey = be32_to_cpu(h->rkey);
	pkt->op1 = be64_to_cpu(h->operand1);
	pkt->op2 = be64_to_cpu(h->operand2);
	return !h->resv;
}

/* False: a reserved bit is set. */
static bool get_dest(const u8 *p, struct mroce_pkt *pkt)
{
	switch (pkt->opcode) {
	case MROCE_OP_SEND: {
		const struct mroce_send_hdr *h = (const struct mroce_send_hdr *)p;

		pkt->rsn = be32_to_cpu(h->rsn);
		pkt->offset = be32_to_cpu(h->offset);
		return true;
	}
	case MROCE_OP_WRITE: {
		const struct mroce_write_hdr *h = (const struct mroce_write_hdr *)p;

		pkt->va = be64_to_cpu(h->va);
		pkt->rkey = be32_to_cpu(h->rkey);
		pkt->offset = be32_to_cpu(h->offset);
		pkt->length = be32_to_cpu(h->length);
		return true;
	}
	case MROCE_OP_READ_REQ: {
		const struct mroce_read_req_hdr *h = (const struct mroce_read_req_hdr *)p;

		pkt->va = be64_to_cpu(h->va);
		pkt->rkey = be32_to_cpu(h->rkey);
		pkt->length = be32_to_cpu(h->length);
		return true;
	}
	case MROCE_OP_READ_RSP: {
		const struct mroce_read_rsp_hdr *h = (const struct mroce_read_rsp_hdr *)p;

		pkt->req_msn = be32_to_cpu(h->req_msn);
		pkt->offset = be32_to_cpu(h->offset);
		return true;
	}
	case MROCE_OP_CMP_SWP:
	case MROCE_OP_FETCH_ADD:
		return get_atomic(p, pkt);
	case MROCE_OP_ATOMIC_RSP: {
		const struct mroce_atomic_rsp_hdr *h = (const struct mroce_atomic_rsp_hdr *)p;

		pkt->req_msn = be32_to_cpu(h->req_msn);
		pkt->op1 = be64_to_cpu(h->original);
		return !h->resv;
	}
	}
	return false;
}

static void get_opt(const u8 *p, struct mroce_pkt *pkt)
{
	if (pkt->hflags & MROCE_HF_IMM) {
		memcpy(&pkt->imm, p, 4);
		p += 4;
	}
	if (pkt->hflags & MROCE_HF_INV)
		pkt->inv_rkey = get_word(&p);
	if (pkt->hflags & MROCE_HF_XRC)
		pkt->srqn = get_word(&p);
	if (pkt->opcode == MROCE_OP_WRITE && (pkt->hflags & MROCE_HF_IMM))
		pkt->rsn = get_word(&p);
}

/* Do offset, lengths, FIRST and LAST agree with each other? */
static enum mroce_door check_extent(const struct mroce_op_info *op, const struct mroce_pkt *pkt)
{
	bool first = pkt->sflags & MROCE_SF_FIRST;
	bool last = pkt->sflags & MROCE_SF_LAST;
	u64 end = (u64)pkt->offset + pkt->payload_len;

	if (pkt->length > MROCE_MAX_MSG)
		return MROCE_DOOR_LENGTH;
	if (!(op->flags & MROCE_OPF_PAYLOAD)) {
		if (pkt->payload_len)
			return MROCE_DOOR_LENGTH;
		return first && last ? MROCE_DOOR_OK : MROCE_DOOR_FLAGS;
	}
	if (pkt->payload_len > MROCE_MAX_PAYLOAD || end > MROCE_MAX_MSG)
		return MROCE_DOOR_LENGTH;
	if (first != !pkt->offset)
		return MROCE_DOOR_FLAGS;
	if (!pkt->payload_len && !(first && last))
		return MROCE_DOOR_LENGTH;
	if (pkt->opcode == MROCE_OP_WRITE) {
		if (end > pkt->length || last != (end == pkt->length))
			return MROCE_DOOR_LENGTH;
	}
	return MROCE_DOOR_OK;
}

/* The acknowledgement in a DATA packet. */
static enum mroce_door get_piggy(const u8 *data, u32 avail, struct mroce_pkt *pkt)
{
	const struct mroce_ack_hdr *h =
		(const struct mroce_ack_hdr *)(data + sizeof(struct mroce_base_hdr));

	if (avail < sizeof(struct mroce_base_hdr) + sizeof(*h))
		return MROCE_DOOR_SHORT;
	if (h->n_path > MROCE_PIGGY_BLOCKS || h->n_stream > MROCE_PIGGY_BLOCKS ||
	    !(h->n_path + h->n_stream))
		return MROCE_DOOR_LENGTH;
	pkt->piggy_len = (u16)mroce_ack_len(h->n_path, h->n_stream);
	return MROCE_DOOR_OK;
}

static enum mroce_door parse_data(const u8 *data, u32 avail, u32 len, struct mroce_pkt *pkt)
{
	const struct mroce_op_info *op = mroce_op_info(pkt->opcode);
	enum mroce_door why = MROCE_DOOR_OK;
	u32 hdr_len, stream, dest;

	if (!op)
		return MROCE_DOOR_OPCODE;
	if (pkt->flags & MROCE_F_PIGGY)
		why = get_piggy(data, avail, pkt);
	if (why != MROCE_DOOR_OK)
		return why;
	stream = sizeof(struct mroce_base_hdr) + pkt->piggy_len;
	dest = stream + sizeof(struct mroce_stream_hdr);
	if (avail < dest + op->dest_len)
		return MROCE_DOOR_SHORT;
	if (!get_stream(data + stream, pkt))
		return MROCE_DOOR_FLAGS;
	if (pkt->hflags & ~op->hflags)
		return MROCE_DOOR_FLAGS;
	if ((pkt->hflags & MROCE_HF_IMM) && (pkt->hflags & MROCE_HF_INV))
		return MROCE_DOOR_FLAGS;
	hdr_len = dest + op->dest_len + opt_len(pkt->opcode, pkt->hflags);
	if (avail < hdr_len)
		return MROCE_DOOR_SHORT;
	if (!get_dest(data + dest, pkt))
		return MROCE_DOOR_FLAGS;
	get_opt(data + dest + op->dest_len, pkt);
	pkt->hdr_len = (u16)hdr_len;
	pkt->payload_len = len - hdr_len;
	return check_extent(op, pkt);
}

enum mroce_door mroce_parse(const u8 *data, u32 avail, u32 len, struct mroce_pkt *pkt)
{
	memset(pkt, 0, sizeof(*pkt));
	if (avail > len)
		avail = len;
	if (avail < sizeof(struct mroce_base_hdr))
		return MROCE_DOOR_SHORT;
	get_base(data, pkt);
	if (data[0] >> 4 != MROCE_WIRE_VERSION)
		return MROCE_DOOR_VERSION;
	if (!pkt->type || pkt->type >= MROCE_T_END)
		return MROCE_DOOR_TYPE;
	if (pkt->flags & (MROCE_F_EXT | MROCE_F_RESV))
		return MROCE_DOOR_FLAGS;
	if ((pkt->flags & MROCE_F_PIGGY) && pkt->type != MROCE_T_DATA)
		return MROCE_DOOR_FLAGS;
	if (pkt->sflags & MROCE_SF_RESV)
		return MROCE_DOOR_FLAGS;
	if (pkt->type == MROCE_T_DATA)
		return parse_data(data, avail, len, pkt);
	if (pkt->type == MROCE_T_CTRL && (!pkt->opcode || pkt->opcode >= MROCE_C_END))
		return MROCE_DOOR_OPCODE;
	pkt->hdr_len = sizeof(struct mroce_base_hdr);
	pkt->payload_len = len - pkt->hdr_len;
	return MROCE_DOOR_OK;
}

void mroce_build_base(u8 *buf, const struct mroce_pkt *pkt)
{
	struct mroce_base_hdr *h = (struct mroce_base_hdr *)buf;

	h->ver_type = (u8)(MROCE_WIRE_VERSION << 4 | (pkt->type & 0x0f));
	h->flags = pkt->flags;
	h->path_id = pkt->path_id;
	h->demand = pkt->demand;
	h->dst_conn = cpu_to_be32(pkt->dst_conn);
	h->vtag = cpu_to_be32(pkt->vtag);
	h->path_gen = cpu_to_be16(pkt->path_gen);
	h->opcode = pkt->opcode;
	h->sflags = pkt->sflags;
	h->path_psn = cpu_to_be32(pkt->path_psn);
	h->tx_ts = cpu_to_be32(pkt->tx_ts);
}

static void put_dest(u8 *p, const struct mroce_pkt *pkt)
{
	switch (pkt->opcode) {
	case MROCE_OP_SEND: {
		struct mroce_send_hdr *h = (struct mroce_send_hdr *)p;

		h->rsn = cpu_to_be32(pkt->rsn);
		h->offset = cpu_to_be32(pkt->offset);
		break;
	}
	case MROCE_OP_WRITE: {
		struct mroce_write_hdr *h = (struct mroce_write_hdr *)p;

		h->va = cpu_to_be64(pkt->va);
		h->rkey = cpu_to_be32(pkt->rkey);
		h->offset = cpu_to_be32(pkt->offset);
		h->length = cpu_to_be32(pkt->length);
		break;
	}
	case MROCE_OP_READ_REQ: {
		struct mroce_read_req_hdr *h = (struct mroce_read_req_hdr *)p;

		h->va = cpu_to_be64(pkt->va);
		h->rkey = cpu_to_be32(pkt->rkey);
		h->length = cpu_to_be32(pkt->length);
		break;
	}
	case MROCE_OP_READ_RSP: {
		struct mroce_read_rsp_hdr *h = (struct mroce_read_rsp_hdr *)p;

		h->req_msn = cpu_to_be32(pkt->req_msn);
		h->offset = cpu_to_be32(pkt->offset);
		break;
	}
	case MROCE_OP_CMP_SWP:
	case MROCE_OP_FETCH_ADD: {
		struct mroce_atomic_req_hdr *h = (struct mroce_atomic_req_hdr *)p;

		h->va = cpu_to_be64(pkt->va);
		h->rkey = cpu_to_be32(pkt->rkey);
		h->resv = 0;
		h->operand1 = cpu_to_be64(pkt->op1);
		h->operand2 = cpu_to_be64(pkt->op2);
		break;
	}
	case MROCE_OP_ATOMIC_RSP: {
		struct mroce_atomic_rsp_hdr *h = (struct mroce_atomic_rsp_hdr *)p;

		h->req_msn = cpu_to_be32(pkt->req_msn);
		h->resv = 0;
		h->original = cpu_to_be64(pkt->op1);
		break;
	}
	}
}

u32 mroce_build_data(u8 *buf, const struct mroce_pkt *pkt)
{
	const struct mroce_op_info *op = mroce_op_info(pkt->opcode);
	u8 *p = buf + sizeof(struct mroce_base_hdr) + pkt->piggy_len;
	struct mroce_stream_hdr *s = (struct mroce_stream_hdr *)p;

	mroce_assert(op);
	if (!op)
		return 0;
	mroce_build_base(buf, pkt);
	buf[0] = MROCE_WIRE_VERSION << 4 | MROCE_T_DATA;
	buf[1] = (pkt->flags & (0xff ^ MROCE_F_PIGGY)) | (pkt->piggy_len ? MROCE_F_PIGGY : 0);
	s->dst_qpn_flags = cpu_to_be32(pkt->dst_qpn << 8 | pkt->hflags);
	s->src_qpn = cpu_to_be32(pkt->src_qpn << 8);
	s->spsn = cpu_to_be32(pkt->spsn);
	s->msn = cpu_to_be32(pkt->msn);
	p += sizeof(*s);
	put_dest(p, pkt);
	p += op->dest_len;
	if (pkt->hflags & MROCE_HF_IMM) {
		memcpy(p, &pkt->imm, 4);
		p += 4;
	}
	if (pkt->hflags & MROCE_HF_INV)
		put_word(&p, pkt->inv_rkey);
	if (pkt->hflags & MROCE_HF_XRC)
		put_word(&p, pkt->srqn);
	if (pkt->opcode == MROCE_OP_WRITE && (pkt->hflags & MROCE_HF_IMM))
		put_word(&p, pkt->rsn);
	return (u32)(p - buf);
}

/* Acknowledgements */

bool mroce_is_lazy(const struct mroce_pkt *p)
{
	const struct mroce_op_info *op = mroce_op_info(p->opcode);
	const u8 both = MROCE_SF_FIRST | MROCE_SF_LAST;

	return p->type == MROCE_T_DATA && !(p->flags & MROCE_F_AR) && (p->sflags & both) == both &&
	       op && (op->flags & MROCE_OPF_RSP);
}

void mroce_put_ack_hdr(u8 *body, u64 rx_bytes, u32 n_path, u32 n_stream)
{
	struct mroce_ack_hdr *h = (struct mroce_ack_hdr *)body;

	h->rx_bytes = cpu_to_be32((u32)(rx_bytes >> 8));
	h->n_path = (u8)n_path;
	h->n_stream = (u8)n_stream;
	h->resv = 0;
}

int mroce_parse_ack_counts(const u8 *body, u32 len, u32 *n_path, u32 *n_stream)
{
	const struct mroce_ack_hdr *h = (const struct mroce_ack_hdr *)body;

	*n_path = 0;
	*n_stream = 0;
	if (len < sizeof(*h))
		return -EINVAL;
	if (len != mroce_ack_len(h->n_path, h->n_stream))
		return -EINVAL;
	*n_path = h->n_path;
	*n_stream = h->n_stream;
	return 0;
}

static u64 get_le64(const u8 *p)
{
	return (u64)p[0] | (u64)p[1] << 8 | (u64)p[2] << 16 | (u64)p[3] << 24 | (u64)p[4] << 32 |
	       (u64)p[5] << 40 | (u64)p[6] << 48 | (u64)p[7] << 56;
}

static void put_le64(u8 *p, u64 v)
{
	p[0] = (u8)v;
	p[1] = (u8)(v >> 8);
	p[2] = (u8)(v >> 16);
	p[3] = (u8)(v >> 24);
	p[4] = (u8)(v >> 32);
	p[5] = (u8)(v >> 40);
	p[6] = (u8)(v >> 48);
	p[7] = (u8)(v >> 56);
}

void mroce_get_path_block(const u8 *body, u32 i, struct mroce_ack_path *b)
{
	const u8 *blocks = body + sizeof(struct mroce_ack_hdr);
	const struct mroce_path_block *w = (const struct mroce_path_block *)blocks + i;
	u32 k;

	b->path_id = w->path_id;
	b->flags = w->flags;
	b->gen = be16_to_cpu(w->path_gen);
	b->max_psn = be32_to_cpu(w->max_psn);
	b->ts_echo = be32_to_cpu(w->ts_echo);
	b->ack_delay = be16_to_cpu(w->ack_delay);
	b->rate_hint = be16_to_cpu(w->rate_hint);
	b->rx_pkts = be32_to_cpu(w->rx_pkts);
	b->ce_pkts = be32_to_cpu(w->ce_pkts);
	b->cum_psn = be32_to_cpu(w->cum_psn);
	for (k = 0; k < 4; k++)
		b->sack[k] = get_le64(w->sack + 8 * k);
}

void mroce_put_path_block(u8 *p, const struct mroce_ack_path *b)
{
	struct mroce_path_block *w = (struct mroce_path_block *)p;
	u32 k;

	w->path_id = b->path_id;
	w->flags = b->flags;
	w->path_gen = cpu_to_be16(b->gen);
	w->max_psn = cpu_to_be32(b->max_psn);
	w->ts_echo = cpu_to_be32(b->ts_echo);
	w->ack_delay = cpu_to_be16(b->ack_delay);
	w->rate_hint = cpu_to_be16(b->rate_hint);
	w->rx_pkts = cpu_to_be32(b->rx_pkts);
	w->ce_pkts = cpu_to_be32(b->ce_pkts);
	w->cum_psn = cpu_to_be32(b->cum_psn);
	for (k = 0; k < 4; k++)
		put_le64(w->sack + 8 * k, b->sack[k]);
	w->resv = 0;
}

void mroce_get_stream_block(const u8 *body, u32 n_path, u32 i, struct mroce_ack_stream *b)
{
	const u8 *blocks = body + sizeof(struct mroce_ack_hdr) +
			   n_path * sizeof(struct mroce_path_block);
	const struct mroce_stream_block *w = (const struct mroce_stream_block *)blocks + i;
	u32 q = be32_to_cpu(w->qpn_syndrome);

	b->qpn = q >> 8;
	b->kind = (q >> 5) & 7;
	b->value = q & 0x1f;
	b->msn_done = be32_to_cpu(w->msn_done);
	b->word = be32_to_cpu(w->word);
	b->base_spsn = be32_to_cpu(w->base_spsn);
	b->vector = be64_to_cpu(w->vector);
}

void mroce_put_stream_block(u8 *p, const struct mroce_ack_stream *b)
{
	struct mroce_stream_block *w = (struct mroce_stream_block *)p;

	w->qpn_syndrome = cpu_to_be32(b->qpn << 8 | (u32)(b->kind & 7) << 5 | (b->value & 0x1f));
	w->msn_done = cpu_to_be32(b->msn_done);
	w->word = cpu_to_be32(b->word);
	w->base_spsn = cpu_to_be32(b->base_spsn);
	w->vector = cpu_to_be64(b->vector);
}

/* Small floating-point numbers */

u8 mroce_demand_encode(u64 bytes)
{
	u64 units = (bytes >> 12) + !!(bytes & 4095);
	int e = fls64(units) - 4;
	u64 m;

	if (e <= 0)
		return (u8)units;
	m = units >> e;
	if (units & ((1ull << e) - 1))
		m++;
	if (m > 15) {
		m >>= 1;
		e++;
	}
	return e > 15 ? 0xff : (u8)(e << 4 | (int)m);
}

u64 mroce_demand_decode(u8 demand)
{
	return (u64)(demand & 15) << (demand >> 4) << 12;
}

u16 mroce_hint_encode(u64 bps)
{
	u64 units = div64_u64(bps, HINT_UNIT);
	int e = fls64(units) - 11;

	if (!bps)
		return MROCE_HINT_NONE;
	if (!units)
		units = 1;	/* 0 would say "no hint" */
	if (e < 0)
		e = 0;
	units >>= e;
	if (e > 31 || (e == 31 && units == 2047))
		return HINT_SAT;
	return (u16)(units << 5 | (u64)e);
}

u64 mroce_hint_decode(u16 hint)
{
	if (hint == MROCE_HINT_UNLIMITED)
		return ~0ull;
	return ((u64)(hint >> 5) << (hint & 31)) * HINT_UNIT;
}

/* HELLO */

static int check_hello(const struct mroce_hello_h *h)
{
	u32 i;

	if (h->ver_min > h->ver_max || !h->conn_id || !h->max_paths)
		return -EINVAL;
	if (h->payload < MROCE_MIN_PAYLOAD || h->payload > MROCE_MAX_PAYLOAD || h->payload % 64)
		return -EINVAL;
	if (h->msn_log2 < 4 || h->msn_log2 > 12 || (1u << h->spsn_log2) != MROCE_SPSN_WINDOW)
		return -EINVAL;
	for (i = 0; i < h->n_addr; i++)
		if (h->addr[i].family != 4 && h->addr[i].family != 6)
			return -EINVAL;
	return 0;
}

int mroce_parse_hello(const u8 *body, u32 len, struct mroce_hello_h *h)
{
	const struct mroce_hello *w = (const struct mroce_hello *)body;
	const struct mroce_hello_addr *a = (const struct mroce_hello_addr *)(body + sizeof(*w));
	u32 i;

	memset(h, 0, sizeof(*h));
	if (len < sizeof(*w))
		return -EINVAL;
	if (w->n_addr > MROCE_MAX_PLANES || len != sizeof(*w) + w->n_addr * sizeof(*a))
		return -EINVAL;
	if (w->spsn_log2 > 31)
		return -EINVAL;
	h->ver_min = w->ver_min;
	h->ver_max = w->ver_max;
	h->tclass = w->tclass;
	h->max_paths = w->max_paths;
	h->conn_id = be32_to_cpu(w->conn_id);
	h->vtag = be32_to_cpu(w->vtag);
	h->payload = be16_to_cpu(w->payload);
	h->mtu = be16_to_cpu(w->mtu);
	h->instance = be64_to_cpu(w->instance);
	h->nonce = be64_to_cpu(w->nonce);
	h->echo_nonce = be64_to_cpu(w->echo_nonce);
	h->msn_log2 = w->msn_log2;
	h->spsn_log2 = w->spsn_log2;
	h->n_addr = w->n_addr;
	h->ack_max = w->ack_max;
	h->features = be32_to_cpu(w->features);
	h->rate_hint = be16_to_cpu(w->rate_hint);
	h->cookie_slot = be32_to_cpu(w->cookie_slot);
	h->cookie = be64_to_cpu(w->cookie);
	for (i = 0; i < w->n_addr; i++) {
		h->addr[i].plane = a[i].plane;
		h->addr[i].family = a[i].family;
		h->addr[i].mtu = be16_to_cpu(a[i].mtu);
		h->addr[i].speed = be32_to_cpu(a[i].speed);
		memcpy(h->addr[i].addr, a[i].addr, sizeof(h->addr[i].addr));
	}
	return check_hello(h);
}

u32 mroce_build_hello(u8 *body, const struct mroce_hello_h *h)
{
	struct mroce_hello *w = (struct mroce_hello *)body;
	struct mroce_hello_addr *a = (struct mroce_hello_addr *)(body + sizeof(*w));
	u32 n = h->n_addr, i;

	mroce_assert(n <= MROCE_MAX_PLANES);
	n = min_t(u32, n, MROCE_MAX_PLANES);
	w->ver_min = h->ver_min;
	w->ver_max = h->ver_max;
	w->tclass = h->tclass;
	w->max_paths = h->max_paths;
	w->conn_id = cpu_to_be32(h->conn_id);
	w->vtag = cpu_to_be32(h->vtag);
	w->payload = cpu_to_be16(h->payload);
	w->mtu = cpu_to_be16(h->mtu);
	w->instance = cpu_to_be64(h->instance);
	w->nonce = cpu_to_be64(h->nonce);
	w->echo_nonce = cpu_to_be64(h->echo_nonce);
	w->msn_log2 = h->msn_log2;
	w->spsn_log2 = h->spsn_log2;
	w->n_addr = (u8)n;
	w->ack_max = h->ack_max;
	w->features = cpu_to_be32(h->features);
	w->rate_hint = cpu_to_be16(h->rate_hint);
	w->resv = 0;
	w->cookie_slot = cpu_to_be32(h->cookie_slot);
	w->cookie = cpu_to_be64(h->cookie);
	for (i = 0; i < n; i++) {
		a[i].plane = h->addr[i].plane;
		a[i].family = h->addr[i].family;
		a[i].mtu = cpu_to_be16(h->addr[i].mtu);
		a[i].speed = cpu_to_be32(h->addr[i].speed);
		memcpy(a[i].addr, h->addr[i].addr, sizeof(a[i].addr));
	}
	return (u32)(sizeof(*w) + n * sizeof(*a));
}

u32 mroce_payload_for_mtu(u32 mtu, u8 family)
{
	u32 over = MROCE_MAX_PAYLOAD_HDR + 8;	/* UDP */
	u32 room;

	if (family == 4)
		over += 20;
	else if (family == 6)
		over += 40;
	else
		return 0;
	if (mtu < over + MROCE_MIN_PAYLOAD)
		return 0;
	room = min_t(u32, mtu - over, MROCE_MAX_PAYLOAD);
	return room >= 4096 ? room & ~4095u : room & ~63u;
}
