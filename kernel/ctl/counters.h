/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The counters of a device: one list, one sentence each.  They appear in
 * `rdma statistic` and below hw_counters in sysfs; tests use them as oracles.
 */
#ifndef MROCE_CTL_COUNTERS_H
#define MROCE_CTL_COUNTERS_H

#include <linux/percpu.h>
#include <linux/types.h>

/* X(name, sentence) */
#define MROCE_COUNTERS(X) \
	X(tx_pkts, "Packets handed to the IP layer, of every type.") \
	X(tx_bytes, "UDP payload bytes of these.") \
	X(tx_data_pkts, "DATA packets sent, first transmissions and resends.") \
	X(tx_refused, "Packets that the IP layer or a queue refused.") \
	X(tx_no_route, "Packets not sent because no route was found.") \
	X(rx_pkts, "Packets received on the device's connections.") \
	X(rx_bytes, "UDP payload bytes of these.") \
	X(rx_data_pkts, "DATA packets that passed the door.") \
	X(rx_ce, "Packets received with the CE mark.") \
	X(tx_acks, "Acknowledgement packets sent.") \
	X(tx_piggy, "DATA packets sent that carried an acknowledgement.") \
	X(rx_acks, "Acknowledgement packets received.") \
	X(retransmitted, "DATA packets sent again.") \
	X(moved, "DATA packets resent on another path than before.") \
	X(lost, "Transmissions declared lost.") \
	X(spurious, "Transmissions declared lost that arrived after all.") \
	X(pto, "Probe timeouts of paths.") \
	X(tail_probes, "Early tail probes sent.") \
	X(probes, "All probes sent.") \
	X(rerolls, "Paths that changed their source port.") \
	X(duplicates, "DATA packets received that the stream already had.") \
	X(held, "LAST packets of WRITEs held until earlier ones were placed.") \
	X(hold_drops, "LAST packets dropped because the hold budget was used up.") \
	X(window_drops, "DATA packets outside their stream's window.") \
	X(bad_short, "Packets shorter than their headers.") \
	X(bad_version, "Packets of an unknown version.") \
	X(bad_type, "Packets of an unknown type.") \
	X(bad_opcode, "Packets with an unknown opcode.") \
	X(bad_flags, "Packets with reserved or impossible flags.") \
	X(bad_length, "Packets whose lengths contradict each other.") \
	X(bad_conn, "Packets for a connection that does not exist.") \
	X(bad_vtag, "Packets with a wrong verification tag.") \
	X(bad_path, "Packets with an implausible path number, generation or PSN.") \
	X(bad_ack, "Acknowledgements of what was never sent.") \
	X(bad_qp, "Packets for a QP that does not exist, is not ready, or has another peer.") \
	X(bad_stream, "Packets that contradict what is known of their stream.") \
	X(bad_ctrl, "Malformed or unexpected control packets.") \
	X(resets_tx, "RESET packets sent.") \
	X(resets_rx, "RESET packets received and accepted.") \
	X(hello_tx, "HELLO and HELLO_ACK packets sent.") \
	X(hello_rx, "HELLO and HELLO_ACK packets received.") \
	X(conn_opened, "Connections opened.") \
	X(conn_closed, "Connections closed or dead.") \
	X(rnr_tx, "RNR stream blocks sent.") \
	X(rnr_rx, "RNR stream blocks received.") \
	X(nak_tx, "Fatal stream blocks sent.") \
	X(nak_rx, "Fatal stream blocks received.") \
	X(retry_exceeded, "QPs that ran out of retry time.") \
	X(cq_overflow, "Completions lost because their CQ was full.") \
	X(deferred_runs, "Transmit runs that used up their budget and yielded.") \
	X(paths_used, "Paths on which at least one DATA packet was sent, over all connections.") \
	X(no_mem, "Packets not built for want of memory.")

enum mroce_counter {
#define X(name, text) MROCE_CNT_##name,
	MROCE_COUNTERS(X)
#undef X
	MROCE_CNT_N
};

struct mroce_counters {
	u64 v[MROCE_CNT_N];
};

/* Any context. */
#define mroce_count(dev, name) \
	this_cpu_inc((dev)->counters->v[MROCE_CNT_##name])
#define mroce_count_add(dev, name, n) \
	this_cpu_add((dev)->counters->v[MROCE_CNT_##name], (n))

struct ib_device;
struct mroce_dev;
struct rdma_hw_stats;

/* Sum over all CPUs.  Any context. */
u64 mroce_counter_read(const struct mroce_dev *dev, enum mroce_counter which);

/* ib_device_ops */
struct rdma_hw_stats *mroce_alloc_hw_port_stats(struct ib_device *ibdev,
						u32 port_num);
int mroce_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		       u32 port, int index);

#endif
