"""Read the rings of a traced job straight from their files, as schema/event.h and ring.h lay them out.

For tests of the tracer alone: no collector, no store. A record becomes a dict; ids of texts become texts.
"""
import glob
import os
import struct

HEADER = struct.Struct("<QII II II qq")
HEADER_BYTES, EVENT = 4096, struct.Struct("<qqIHH40s")
HEAD_AT, LOST_AT, CLOSED_AT = 64, 72, 80  # of the second cache line of struct lw_ring_header
MAGIC = 0x31676E6972776C

KINDS = {
    1: ("PROCESS", "<iiiiQIHHQ", "rank size local_rank local_size command ppid framework transport reserved"),
    3: ("CLOCK", "<qQ24x", "realtime_ns tsc"),
    4: ("COMM", "<QQiiIHH8x", "comm parent size rank serial transport reserved"),
    5: ("COLLECTIVE", "<QQQiHH8x", "comm sent_bytes received_bytes root flags transport"),
    6: ("MESSAGE", "<QQiiH14x", "comm bytes peer tag flags"),
    7: ("READY", "<QQQ16x", "object name bytes"),
    8: ("CYCLE", "<QQIIqq", "in_bits out_bits n_words n_unchanged unchanged_ns unchanged_span_ns"),
    9: ("BATCH", "<QQQIiHHHH", "batch bytes fusion_bytes n_tensors process_set dtype flags framework reserved"),
    10: ("BATCH_TENSOR", "<QQQQH6x", "batch name object bytes dtype"),
    11: ("SETTING", "<dI28x", "value source"),
    12: ("WAIT", "<40x", ""),
    13: ("SOCKET", "<IHH16s16s", "socket local_port peer_port local peer"),
    14: ("SOCKET_BYTES", "<IIQQI12x", "socket n_sends sent_bytes received_bytes n_receives"),
    15: ("TCP_INFO", "<IIQQQII",
         "socket rtt_us acked_bytes received_bytes delivery_bytes_per_s n_retransmits congestion_window_segments"),
    16: ("GLOO_MESSAGE", "<I4xQQQ8x", "socket slot bytes is_sent"),
    16: ("GLOO_MESSAGE", "<IIQQQ8x", "socket reserved slot bytes is_sent"),
    17: ("MARK", "<Qq24x", "name value"),
    18: ("LOSS", "<QQ24x", "count where"),
    19: ("HOOK", "<QQI20x", "name detail n_slots"),
    20: ("THREAD", "<Q32x", "name"),
    21: ("PARAMETER", "<IIQH22x", "reducer position bytes dtype"),
    22: ("GRADIENT", "<II32x", "reducer position"),
    23: ("PROBE", "<QIIIH18x", "bytes number burst position transport"),
    24: ("RDMA_PORT", "<Q16sIHBB8x", "device gid port lid number gid_index"),
    25: ("RDMA_QP", "<IIII16sHBBI", "qp number peer_number port peer_gid peer_lid type flags n_unused_receives"),
    26: ("RDMA_WORK", "<QIIHHH18x", "bytes qp peer_number n_sge status flags"),
    27: ("RDMA_MEMORY", "<QIIIIQ8x", "registered_bytes n_registered n_registrations n_deregistrations n_dmabufs register_ns"),
    28: ("GPU", "<QQQIIIHH", "name pci memory_bytes device n_multiprocessors clock_khz major minor"),
    29: ("KERNEL", "<QIIIIII8x", "name device context stream correlation graph flags"),
    30: ("COPY", "<QIIIIII8x", "bytes device context stream correlation peer_device flags"),
    31: ("GPU_SYNC", "<IIII24x", "context stream event correlation"),
    32: ("LAUNCH", "<QQIIHHI8x", "name for_serial correlation caller made_for reserved result"),
    33: ("GPU_OVERHEAD", "<Q32x", "name"),
    34: ("NCCL_OP", "<QQQiIBBBBHH", "comm serial bytes peer group algorithm protocol n_channels dtype flags source"),
    35: ("NCCL_PROXY", "<QQiHHIII4x", "serial bytes peer channel n_steps gpu_wait_us peer_wait_us wire_us"),
    36: ("NCCL_NET", "<QQII16x", "serial bytes number n"),
}
TEXTS = {"command", "where", "detail", "device"}
COLLS = {1: "allreduce", 2: "allgather", 3: "broadcast", 4: "alltoall", 5: "reducescatter", 6: "reduce", 10: "barrier",
         11: "adasum", 14: "join", 15: "error"}
SETTINGS = {1: "fusion_bytes", 2: "cycle_ns", 3: "fusion_effective_bytes", 4: "cache_capacity", 5: "autotune",
            6: "hierarchical_allreduce", 7: "torus_allreduce", 8: "disable_group_fusion", 9: "batch_d2d_memcopies",
            10: "cache_enabled", 11: "timeline"}
CONTROL, UNFINISHED, FAILED, NO_BYTES = 8, 16, 32, 64


def read_ring(path):
    """All records of one ring file, in order, and how many were dropped."""
    with open(path, "rb") as file:
        data = file.read()
    magic, version, n_records, pid, tid, serial, _, _, created_ns = HEADER.unpack_from(data)
    assert magic == MAGIC and version == 1, f"{path}: not a ring of this version"
    head, lost = struct.unpack_from("<QQ", data, HEAD_AT)
    assert head <= n_records, f"{path}: wrapped; only a collector could have read it"
    events, texts = [], {}
    for i in range(head):
        t0, t1, seq, kind, op, arg = EVENT.unpack_from(data, HEADER_BYTES + 64 * i)
        if kind == 2:
            text_id, n_bytes = struct.unpack_from("<QH", arg)
            part = arg[10:40]
            whole = texts.setdefault(text_id, bytearray(n_bytes))
            whole[30 * op:30 * op + 30] = part[:max(0, n_bytes - 30 * op)]
            continue
        if kind not in KINDS:
            continue
        name, layout, fields = KINDS[kind]
        event = {"kind": name, "op": op, "t0": t0, "t1": t1, "seq": seq, "tid": tid, "pid": pid}
        event.update(zip(fields.split(), struct.unpack(layout, arg)))
        events.append(event)
    return events, {key: bytes(value).decode("utf-8", "replace") for key, value in texts.items()}, lost


def read_processes(directory):
    """{pid: {"events": [...], "lost": n, "rank": r, "pid": pid}} of all that left rings in @directory."""
    processes, texts = {}, {}
    for path in sorted(glob.glob(os.path.join(directory, "*.ring"))):
        events, own_texts, lost = read_ring(path)
        texts.update(own_texts)
        pid = int(os.path.basename(path).split(".")[0])
        process = processes.setdefault(pid, {"events": [], "lost": 0, "rank": -1, "pid": pid})
        process["events"] += events
        process["lost"] += lost
    for process in processes.values():
        for event in process["events"]:
            for field in event.keys() & (TEXTS | {"name"}):
                event[field] = texts.get(event[field], "" if event[field] == 0 else None)
            if event["kind"] == "PROCESS" and event["rank"] >= 0:
                process["rank"] = event["rank"]
        process["events"].sort(key=lambda event: (event["t0"], event["seq"]))
    return processes


def read_job(directory):
    """The same by rank; each rank must be one process."""
    ranks = {}
    for process in read_processes(directory).values():
        assert process["rank"] not in ranks, f"two processes of rank {process['rank']}"
        ranks[process["rank"]] = process
    return ranks


def of_kind(process, kind):
    return [event for event in process["events"] if event["kind"] == kind]


def batches(process):
    """BATCH records in order, each with its members in order."""
    members = {}
    for event in of_kind(process, "BATCH_TENSOR"):
        members.setdefault(event["batch"], []).append(event)
    result = of_kind(process, "BATCH")
    for batch in result:
        batch["coll"] = COLLS.get(batch["op"], str(batch["op"]))
        batch["members"] = sorted(members.pop(batch["batch"], []), key=lambda member: member["op"])
    return result, members  # members left over belong to batches that never ended
