"""An independent client of upstream's two protocols, for tests of the server.

Written from the description of the protocols with pyzmq, msgpack and plain sockets; it shares no
code with src/wire/compat/ and trusts nothing that it receives.
"""
