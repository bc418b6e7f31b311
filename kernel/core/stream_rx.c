// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

#include "stream_rx.h"

#define REC_FREE	0
#define REC_ACTIVE	1

/* Packets between exec_spsn and the newest: keeps serial arithmetic unambiguous. */
#define MAX_AHEAD	(1u << 30)

#define HF_WORDS	(MROCE_HF_IMM | MROCE_HF_INV)

void mroce_stream_rx_init(struct mroce_stream_rx *s, u32 start, u32 payload,
			  struct mroce_msg_rec *rec, u32 msn_window)
{
	mroce_assert(payload);
	mroce_assert(!(msn_window & (msn_window - 1)));
	memset(s, 0, sizeof(*s));
	s->base = start;
	s->exec_spsn = start;
	s->payload = payload;
	s->rec = rec;
	s->msn_mask = rec ? msn_window - 1 : 0;
}

/* @spsn lies in the window: has it been received? */
static bool test_bit_of(const struct mroce_stream_rx *s, u32 spsn)
{
	return s->bits[spsn % MROCE_SPSN_WINDOW / 64] >> (spsn % 64) & 1;
}

static bool received(const struct mroce_stream_rx *s, u32 spsn)
{
	if (mroce_seq_lt(spsn, s->base))
		return true;
	return spsn - s->base < MROCE_SPSN_WINDOW && test_bit_of(s, spsn);
}

static struct mroce_msg_rec *slot(const struct mroce_stream_rx *s, u32 msn)
{
	return &s->rec[msn & s->msn_mask];
}

/* @msn lies in the window: its record if it is in progress. */
static const struct mroce_msg_rec *active(const struct mroce_stream_rx *s, u32 msn)
{
	const struct mroce_msg_rec *r = slot(s, msn);

	return r->state == REC_ACTIVE ? r : NULL;
}

static bool consumes(u8 opcode, u8 hflags)
{
	u8 f = mroce_op_table[opcode].flags;

	return (f & MROCE_OPF_RECV) || ((f & MROCE_OPF_RECV_IMM) && (hflags & MROCE_HF_IMM));
}

/* Where a packet stands in its message. */
struct place {
	u32 idx;		/* number in the message */
	u32 first;		/* SPSN of the message's first packet */
	u32 npkts;		/* of the message, if the packet tells; else 0 */
	u32 length;		/* likewise */
	bool last;
};

/* False: the packet contradicts itself. */
static bool locate(const struct mroce_stream_rx *s, const struct mroce_pkt *p, struct place *l)
{
	const u8 opf = mroce_op_table[p->opcode].flags;

	l->last = p->sflags & MROCE_SF_LAST;
	l->idx = 0;
	l->first = p->spsn;
	l->npkts = 1;
	l->length = p->length;
	if (!(opf & MROCE_OPF_PAYLOAD))
		return l->last;
	l->idx = p->offset / s->payload;
	if (p->offset != l->idx * s->payload)
		return false;
	if (l->last ? p->payload_len > s->payload : p->payload_len != s->payload)
		return false;
	l->first = p->spsn - l->idx;
	if (p->opcode == MROCE_OP_WRITE) {
		l->npkts = mroce_npkts(p->length, s->payload);
		return l->idx < l->npkts && l->last == (l->idx == l->npkts - 1);
	}
	l->npkts = l->last ? l->idx + 1 : 0;
	l->length = l->last ? p->offset + p->payload_len : 0;
	return true;
}

/* Does the packet fit what earlier packets of its message have said? */
static bool fits_record(const struct mroce_stream_rx *s, const struct mroce_msg_rec *r,
			const struct mroce_pkt *p, const struct place *l)
{
	u8 more = p->hflags & HF_WORDS & ~r->hflags;
	u8 both = p->hflags & HF_WORDS & r->hflags;

	if (r->op != p->opcode || r->first_spsn != l->first)
		return false;
	if (r->va != p->va || r->rkey != p->rkey)
		return false;
	if ((r->hflags ^ p->hflags) & MROCE_HF_XRC || r->srqn != p->srqn)
		return false;
	if (r->npkts) {
		if (l->idx >= r->npkts || l->last != (l->idx == r->npkts - 1))
			return false;
		if (l->npkts && l->length != r->length)
			return false;
		/* LAST has the final say about IMM and INV. */
		if (more && received(s, r->first_spsn + r->npkts - 1))
			return false;
	} else if (l->last && l->idx < r->top) {
		return false;
	}
	if (l->last && (r->hflags & HF_WORDS & ~p->hflags))
		return false;
	if ((p->hflags | r->hflags) & MROCE_HF_IMM && (p->hflags | r->hflags) & MROCE_HF_INV)
		return false;
	if (both & MROCE_HF_IMM && r->imm != p->imm)
		return false;
	if (both & MROCE_HF_INV && r->inv_rkey != p->inv_rkey)
		return false;
	if (consumes(r->op, r->hflags) && consumes(p->opcode, p->hflags) && r->rsn != p->rsn)
		return false;
	return true;
}

/* The message's extent, with what this packet adds to it, against its neighbours'. */
static bool fits_neighbours(const struct mroce_stream_rx *s, const struct mroce_msg_rec *r,
			    const struct mroce_pkt *p, const struct place *l)
{
	u32 dist = p->msn - s->exec_msn;
	u32 npkts = l->npkts ? l->npkts : r ? r->npkts : 0;
	const struct mroce_msg_rec *n;
	u32 len;

	/* Every message has a packet at least. */
	if (l->first - s->exec_spsn < dist || l->first - s->exec_spsn > MAX_AHEAD)
		return false;
	if (!dist) {
		if (l->first != s->exec_spsn)
			return false;
	} else if (!r) {
		n = active(s, p->msn - 1);
		if (n) {
			len = l->first - n->first_spsn;
			/* Unknown end: its LAST is still to come behind its top. */
			if (n->npkts ? len != n->npkts : (len > MAX_AHEAD || len <= n->top))
				return false;
		}
	}
	n = dist < s->msn_mask ? active(s, p->msn + 1) : NULL;
	if (n) {
		len = n->first_spsn - l->first;
		if (npkts ? len != npkts : (len > MAX_AHEAD || len <= l->idx + 1))
			return false;
	}
	return true;
}

/* RSNs are counted through the messages in order, so far as one can see. */
static bool fits_rsn(const struct mroce_stream_rx *s, const struct mroce_pkt *p)
{
	if (!consumes(p->opcode, p->hflags))
		return true;
	return p->rsn - s->exec_rsn <= p->msn - s->exec_msn;
}

static enum mroce_rx_verdict check_request(const struct mroce_stream_rx *s,
					   const struct mroce_pkt *p, bool relaxed)
{
	u32 dist = p->msn - s->exec_msn;
	const struct mroce_msg_rec *r;
	struct place l;

	if ((s32)dist < 0)
		return MROCE_RX_INVALID;	/* a new packet of an executed message */
	if (dist > s->msn_mask || p->spsn - s->exec_spsn > MAX_AHEAD)
		return MROCE_RX_WINDOW;
	r = active(s, p->msn);
	if (!locate(s, p, &l))
		return MROCE_RX_INVALID;
	if (r && !fits_record(s, r, p, &l))
		return MROCE_RX_INVALID;
	if (!fits_neighbours(s, r, p, &l) || !fits_rsn(s, p))
		return MROCE_RX_INVALID;
	if (p->opcode == MROCE_OP_WRITE && l.last && p->payload_len && !relaxed &&
	    p->spsn != s->base)
		return MROCE_RX_HOLD;
	return MROCE_RX_OK;
}

enum mroce_rx_verdict mroce_stream_rx_check(const struct mroce_stream_rx *s,
					    const struct mroce_pkt *p, bool relaxed)
{
	const struct mroce_op_info *op = mroce_op_info(p->opcode);

	if (mroce_seq_lt(p->spsn, s->base))
		return MROCE_RX_DUP;
	if (p->spsn - s->base >= MROCE_SPSN_WINDOW)
		return MROCE_RX_WINDOW;
	if (test_bit_of(s, p->spsn))
		return MROCE_RX_DUP;
	if (!op || !(op->flags & MROCE_OPF_RSP) != !!s->rec)
		return MROCE_RX_INVALID;
	return s->rec ? check_request(s, p, relaxed) : MROCE_RX_OK;
}

/* Frees the bits below the first missing one. */
static bool advance(struct mroce_stream_rx *s)
{
	u32 old = s->base;
	u32 off, n;
	u64 *w, v;

	do {
		w = &s->bits[s->base % MROCE_SPSN_WINDOW / 64];
		off = s->base % 64;
		v = ~(*w >> off);	/* ones came in from above unless off is 0 */
		n = v ? (u32)__ffs64(v) : 64;
		if (!n)
			break;
		*w &= n < 64 ? ~(((1ull << n) - 1) << off) : 0;
		s->base += n;
	} while (off + n == 64);
	return s->base != old;
}

static void update_record(struct mroce_stream_rx *s, const struct mroce_pkt *p,
			  const struct place *l)
{
	struct mroce_msg_rec *r = slot(s, p->msn);

	if (r->state != REC_ACTIVE) {
		memset(r, 0, sizeof(*r));
		r->state = REC_ACTIVE;
		r->op = p->opcode;
		r->first_spsn = l->first;
		r->va = p->va;
		r->rkey = p->rkey;
		r->srqn = p->srqn;
		r->op1 = p->op1;
		r->op2 = p->op2;
	}
	r->got++;
	if (l->npkts) {
		r->npkts = l->npkts;
		r->length = l->length;
	} else if (!r->npkts) {
		r->top = max_t(u32, r->top, l->idx + 1);
	}
	if (p->hflags & MROCE_HF_IMM)
		r->imm = p->imm;
	if (p->hflags & MROCE_HF_INV)
		r->inv_rkey = p->inv_rkey;
	if (consumes(p->opcode, p->hflags))
		r->rsn = p->rsn;
	r->hflags |= p->hflags;
	r->sflags |= p->sflags & MROCE_SF_SOLICITED;
}

bool mroce_stream_rx_commit(struct mroce_stream_rx *s, const struct mroce_pkt *p)
{
	struct place l;
	bool ok;

	ok = p->spsn - s->base < MROCE_SPSN_WINDOW && !test_bit_of(s, p->spsn);
	mroce_assert(ok);
	if (!ok)
		return false;
	if (s->rec) {
		locate(s, p, &l);
		update_record(s, p, &l);
	}
	s->bits[p->spsn % MROCE_SPSN_WINDOW / 64] |= 1ull << (p->spsn % 64);
	return p->spsn == s->base && advance(s);
}

/* All packets of message exec_msn are here. */
static bool next_complete(const struct mroce_stream_rx *s)
{
	const struct mroce_msg_rec *r = s->rec ? active(s, s->exec_msn) : NULL;

	return r && r->npkts && r->got == r->npkts;
}

static bool rsn_wrong(const struct mroce_stream_rx *s)
{
	const struct mroce_msg_rec *r = slot(s, s->exec_msn);

	return consumes(r->op, r->hflags) && r->rsn != s->exec_rsn;
}

struct mroce_msg_rec *mroce_stream_rx_complete(struct mroce_stream_rx *s)
{
	return next_complete(s) && !rsn_wrong(s) ? slot(s, s->exec_msn) : NULL;
}

bool mroce_stream_rx_broken(const struct mroce_stream_rx *s)
{
	return next_complete(s) && rsn_wrong(s);
}

void mroce_stream_rx_executed(struct mroce_stream_rx *s)
{
	struct mroce_msg_rec *r = mroce_stream_rx_complete(s);

	mroce_assert(r);
	if (!r)
		return;
	s->exec_spsn += r->npkts;
	if (consumes(r->op, r->hflags))
		s->exec_rsn++;
	s->exec_msn++;
	memset(r, 0, sizeof(*r));
}

struct mroce_msg_rec *mroce_stream_rx_rec(struct mroce_stream_rx *s, u32 msn)
{
	struct mroce_msg_rec *r;

	if (!s->rec || msn - s->exec_msn > s->msn_mask)
		return NULL;
	r = slot(s, msn);
	return r->state == REC_ACTIVE ? r : NULL;
}

void mroce_stream_rx_block(const struct mroce_stream_rx *s, struct mroce_ack_stream *b)
{
	u32 from = s->base + 1;
	u32 w = from % MROCE_SPSN_WINDOW / 64;
	u32 off = from % 64;

	b->base_spsn = s->base;
	b->vector = s->bits[w] >> off;
	if (off)
		b->vector |= s->bits[(w + 1) % (MROCE_SPSN_WINDOW / 64)] << (64 - off);
	if (s->rec)
		b->msn_done = s->exec_msn;
}
