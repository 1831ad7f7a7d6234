"""Traffic that is no job's: net_other.py listen ADDRESS PORT | send ADDRESS PORT BYTES"""
import socket
import sys

MIB = bytes(1 << 20)


def main():
    role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if role == "listen":
        connection, _ = socket.create_server((address, port)).accept()
        while connection.recv(1 << 16):
            pass
        return
    with socket.create_connection((address, port)) as connection:
        for _ in range(int(sys.argv[4]) >> 20):
            connection.sendall(MIB)


main()
