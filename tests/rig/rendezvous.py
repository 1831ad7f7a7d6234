"""The rendezvous that horovodrun --gloo starts, for hosts of net.sh. rendezvous.py N SECONDS; prints its port."""
import sys
import time

from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousServer

n = int(sys.argv[1])
hosts = ",".join(f"198.18.77.{i + 1}:1" for i in range(n))
server = RendezvousServer(0)
port = server.start()
server.init(get_host_assignments(parse_hosts(hosts), n))
print(port, flush=True)
time.sleep(float(sys.argv[2]))
