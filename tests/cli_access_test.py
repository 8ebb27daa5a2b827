#!/usr/bin/env python3
"""Who may talk to whom: sockets by path and by name, peers of other users, squatters."""

import os
import pathlib
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

from server import UNIX_ONLY, Server

MARU = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/maru").resolve()
STRANGER = 65534
AS_STRANGER = ("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups")

as_root = unittest.skipUnless(os.getuid() == 0, "changes its user, which root alone may")


def abstract_name(server):
    """The name that the server tells, "@maru-" and the uuid of its first pool."""
    told = [line.split()[2].rstrip(",") for line in server.said if line.startswith("also at ")]
    return told[0]


def maru(*words, user=(), **options):
    return subprocess.run([*user, str(MARU), *map(str, words)], capture_output=True, text=True,
                          **options)


class Open(unittest.TestCase):
    """A server whose folder others can enter, so that only its own checks stand in the way."""

    def setUp(self):
        self.server = Server(MARU)
        self.server.folder.chmod(0o755)
        self.addCleanup(self.server.__exit__)
        # A stranger must be able to run the program, wherever it was built.
        self.programs = pathlib.Path(tempfile.mkdtemp(prefix="maru-programs-"))
        self.programs.chmod(0o755)
        self.addCleanup(subprocess.run, ["rm", "-r", self.programs], check=True)
        self.maru = self.programs / "maru"
        self.maru.write_bytes(MARU.read_bytes())
        self.maru.chmod(0o755)

    def stranger(self, *words, groups=None):
        user = AS_STRANGER if groups is None else (*AS_STRANGER[:3], f"--groups={groups}")
        return subprocess.run([*user, self.maru, *map(str, words)], capture_output=True, text=True)


class Sockets(Open):
    def test_the_name_reaches_the_server_as_the_path_does(self):
        self.server.start()
        self.server.run("put", "k", "-", data=b"bytes")
        name = abstract_name(self.server)
        self.assertRegex(name, "^@maru-[0-9a-f-]{36}$")
        for words in (("--server", name), ("--server", f"unix:{name}")):
            self.assertEqual(maru("get", "k", *words).stdout, "bytes")
        for variable in ("MARU_SERVER", "MARU_SOCKET"):
            got = maru("get", "k", env={**os.environ, variable: name})
            self.assertEqual(got.stdout, "bytes", got.stderr)

    def test_the_name_is_that_of_the_pool_and_stays(self):
        names = []
        for options in ((), (), ("--fresh",)):
            self.server.start(*options)
            names.append(abstract_name(self.server))
            self.server.stop()
        self.assertEqual(names[0], names[1])
        self.assertNotEqual(names[1], names[2])

    def test_a_name_alone_needs_no_folder(self):
        name = f"@{self.server.folder.name}"
        self.server.socket = name
        self.server.start()
        self.assertEqual(self.server.said, [line for line in self.server.said
                                            if not line.startswith("also at ")])
        self.assertEqual(self.server.run("exists", "k").returncode, 1)

    def test_a_taken_name_is_told_and_the_path_serves(self):
        self.server.start()
        name = abstract_name(self.server)
        self.server.stop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as squatter:
            squatter.bind("\0" + name[1:])
            squatter.listen()
            self.server.start()
            self.assertIn(name, self.server.logged())
            self.assertIn(f"process {os.getpid()} of uid {os.getuid()}", self.server.logged())
            self.assertEqual(self.server.run("exists", "k").returncode, 1)

    def test_modes(self):
        self.server.start()
        for path in (self.server.pool, self.server.socket, f"{self.server.socket}.lock"):
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600, path)


@as_root
class OtherUsers(Open):
    def test_a_stranger_is_told_its_uid_and_the_option(self):
        self.server.start()
        for where in (abstract_name(self.server), self.server.socket):
            os.chmod(self.server.socket, 0o666)  # so that the path is no hindrance either
            refused = self.stranger("exists", "k", "--server", where)
            self.assertEqual(refused.returncode, 1, refused.stderr)
            self.assertIn(f"uid {STRANGER} is not admitted", refused.stderr)
            self.assertIn("--socket-group", refused.stderr)

    def test_without_permission_the_path_says_so(self):
        self.server.start()
        refused = self.stranger("exists", "k", "--server", self.server.socket)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("Permission denied", refused.stderr)

    def test_members_of_the_group_are_admitted(self):
        group = 54321
        self.server.start("--socket-group", group)
        for path in (self.server.pool, self.server.socket):
            facts = os.stat(path)
            self.assertEqual((stat.S_IMODE(facts.st_mode), facts.st_gid), (0o660, group), path)
        for where in (abstract_name(self.server), self.server.socket):
            done = self.stranger("exists", "k", "--server", where, groups=group)
            self.assertEqual(done.stdout, "missing k\n", done.stderr)
        refused = self.stranger("exists", "k", "--server", abstract_name(self.server))
        self.assertIn("not in the group", refused.stderr)

    def test_a_group_of_an_earlier_start_has_no_part_in_the_next(self):
        self.server.start("--socket-group", 54321)
        self.server.stop()
        for options in ((), ("--fresh",)):
            self.server.start(*options)
            for path in (self.server.pool, self.server.socket):
                self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600, path)
            self.server.stop()

    def serve_as_stranger(self, where):
        """A server of another user, on a name or a path that a client takes for its own."""
        pool = pathlib.Path("/dev/shm", f"{self.server.folder.name}.strange")
        process = subprocess.Popen(
            [*AS_STRANGER, self.maru, "serve", "--pool", f"file:{pool},size=32MiB", "--socket",
             where, *UNIX_ONLY], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("listening on "):
                break
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        self.addCleanup(pool.unlink)
        return process

    def check_trust(self, where):
        self.serve_as_stranger(where)
        refused = maru("put", "secret", "/etc/hostname", "--server", where)
        self.assertEqual(refused.returncode, 1, refused.stderr)
        for word in (f"uid {STRANGER}", "uid 0", "--server-user", "MARU_SERVER_USER", where):
            self.assertIn(word, refused.stderr)
        for trust, env in ((("--server-user", str(STRANGER)), {}),
                           ((), {"MARU_SERVER_USER": str(STRANGER)})):
            done = maru("exists", "k", "--server", where, *trust, env={**os.environ, **env})
            self.assertEqual(done.stdout, "missing k\n", done.stderr)

    def test_a_strangers_server_on_a_name_is_not_trusted_unless_it_is_named(self):
        self.check_trust(f"@{self.server.folder.name}")

    def test_a_strangers_server_on_a_path_is_not_trusted_unless_it_is_named(self):
        self.server.folder.chmod(0o777)
        self.check_trust(str(self.server.folder / "strange.sock"))

    def test_an_unknown_server_user_is_named(self):
        done = maru("exists", "k", "--server-user", "nobody-of-that-name")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nobody-of-that-name", done.stderr)

    def test_a_pool_of_another_user_or_of_everybody_is_refused(self):
        self.server.start()
        self.server.stop()
        pool = self.server.pool
        os.chmod(pool, 0o666)
        refused = maru("serve", "--pool", f"file:{pool}", "--socket", self.server.socket,
                       *UNIX_ONLY)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("open to every user", refused.stderr)
        os.chmod(pool, 0o660)
        os.chown(pool, 0, STRANGER)
        refused = self.stranger("serve", "--pool", f"file:{pool}", "--socket",
                                f"@{self.server.folder.name}", *UNIX_ONLY)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("belongs to user 0", refused.stderr)

    def test_a_folder_without_permission(self):
        refused = self.stranger("serve", "--pool", "shm:maru-none,size=32MiB", "--socket",
                                "/root/maru.sock", *UNIX_ONLY)
        self.assertFalse(os.path.exists("/dev/shm/maru-none"))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("/root/maru.sock", refused.stderr)
        self.assertIn("Permission denied", refused.stderr)


if __name__ == "__main__":
    unittest.main()
