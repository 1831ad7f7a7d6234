-- What the processes of a job may use of their host's cores, what they used, and how long they waited for one. Raw, from /proc.

CREATE TABLE cores(              -- when a process was first seen, and whenever its affinity changed
    process_id INTEGER NOT NULL, at_ns INTEGER NOT NULL,
    n_online INTEGER NOT NULL,   -- cores of the host
    allowed TEXT NOT NULL,       -- those that its affinity allows, as /proc/PID/status lists them: '0-3,8'
    n_allowed INTEGER NOT NULL,
    quota_frac REAL              -- least of the CPU quotas of its control groups: CPU time per time, 2 = two cores; NULL = none
) STRICT;

CREATE TABLE cpu_sample(         -- totals so far; twice a second
    process_id INTEGER NOT NULL,
    thread_id INTEGER,           -- a thread that has a ring; NULL = all threads of the process
    at_ns INTEGER NOT NULL,
    user_ns INTEGER NOT NULL, system_ns INTEGER NOT NULL,
    waited_ns INTEGER,           -- ready to run, but others had the cores; NULL = this kernel does not say
    n_voluntary INTEGER, n_involuntary INTEGER -- context switches; NULL = not asked
) STRICT;

CREATE VIEW v_cpu AS             -- of each rank: cores used between its first and last sample, cores waited for
    SELECT p.rank AS rank, count(*) AS n_samples, (max(x.at_ns) - min(x.at_ns)) / 1e9 AS seconds,
           1.0 * (max(x.user_ns + x.system_ns) - min(x.user_ns + x.system_ns)) / (max(x.at_ns) - min(x.at_ns)) AS used_cores,
           1.0 * (max(x.waited_ns) - min(x.waited_ns)) / (max(x.at_ns) - min(x.at_ns)) AS waited_cores
    FROM cpu_sample x JOIN process p ON p.id = x.process_id WHERE x.thread_id IS NULL GROUP BY p.id;
