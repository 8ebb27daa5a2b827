#!/usr/bin/env python3
"""Options: one table for flags, environment, file, help and page. Formats, byte by byte."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import unittest

from server import UNIX_ONLY, Server

MARU = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/maru").resolve()
SOURCE = pathlib.Path(__file__).resolve().parent.parent
COMMANDS = ("serve", "resource-manager", "server", "demo", "put", "get", "exists", "rm", "unpin",
            "ls", "release", "stat", "top", "audit", "replay", "pool init", "pool inspect",
            "pool check", "pool dump", "pool renumber", "frame")


def maru(*words, **options):
    return subprocess.run([str(MARU), *map(str, words)], capture_output=True, text=True, **options)


class Table(unittest.TestCase):
    def test_the_page_of_the_documentation_is_what_the_tables_say(self):
        self.assertEqual(maru("reference").stdout, (SOURCE / "docs" / "commands.md").read_text(),
                         "write it anew: build/maru reference >docs/commands.md")

    def test_the_help_has_what_the_page_has(self):
        page = maru("reference").stdout
        common = re.findall(r"^\| `(--[a-z-]+)", page.split("\n## ")[1], re.MULTILINE)
        self.assertIn("--json", common)
        sections = {part.split("\n")[0].removeprefix("maru "): part
                    for part in page.split("\n## ")[2:]}
        self.assertLessEqual(set(COMMANDS), set(sections))
        for name, section in sections.items():
            shown = maru(*name.split(), "--help").stdout
            flags = re.findall(r"^\| `(--[a-z-]+)", section, re.MULTILINE)
            self.assertEqual(set(re.findall(r"^  (?:-h,)?(--[a-z-]+)", shown, re.MULTILINE)),
                             {"--help", *flags, *common}, name)

    def test_the_help_names_every_command_and_no_hidden_one(self):
        shown = maru("--help").stdout
        for name in COMMANDS:
            self.assertIn(name.split()[0], shown)
        for hidden in ("replay-instance", "bench-worker", "reference"):
            self.assertNotIn(hidden, shown)

    def test_without_a_word_the_help_is_an_error(self):
        done = maru()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("serve", done.stderr)


class Sources(unittest.TestCase):
    """Explicit before environment before file before default, shown with the socket of serve."""

    def setUp(self):
        self.server = Server(MARU)
        self.addCleanup(self.server.__exit__)
        self.file = self.server.folder / "maru.conf"

    def listens(self, words, environment, config):
        """Where a server with these sources listens."""
        pool = f"file:{self.server.pool},size=32MiB"
        self.file.write_text(f"# a comment\n\npool = {pool}\n{config}")
        env = {**os.environ, **environment}
        process = subprocess.Popen([MARU, "serve", *UNIX_ONLY, "--config", self.file, *words],
                                   stdout=subprocess.PIPE, text=True, env=env)
        said = [line for line in iter(process.stdout.readline, "")
                if line.startswith("listening on ") and not process.terminate()]
        self.assertEqual(process.wait(), 0)
        process.stdout.close()
        return said[0].removeprefix("listening on ").strip()

    def test_precedence(self):
        line, variable, file = (f"@{self.server.folder.name}-{i}" for i in range(3))
        words, environment, config = ["--socket", line], {"MARU_SOCKET": variable}, \
            f"socket = {file}\n"
        self.assertEqual(self.listens(words, environment, config), line)
        self.assertEqual(self.listens([], environment, config), variable)
        self.assertEqual(self.listens([], {"MARU_SOCKET": ""}, config), file)

    def test_wrong_lines_are_named(self):
        for wrong, said in (("sokcet = x", "sokcet"), ("socket", "KEY = VALUE"),
                            ("fresh = yes", "true or false"), ("eviction = random", "random"),
                            ("socket = a\nsocket = b", "given twice"), ("config = x", "config"),
                            ("[serve]", "KEY = VALUE")):
            self.file.write_text(wrong + "\n")
            done = maru("serve", "--config", self.file)
            self.assertEqual(done.returncode, 2, (wrong, done.stderr))
            self.assertIn(said, done.stderr)
        self.file.write_text("\n# only\nwrong\n")
        self.assertIn(f"{self.file}:3:", maru("serve", "--config", self.file).stderr)
        self.assertEqual(maru("serve", "--config", "/no/such.conf").returncode, 1)

    def test_several_pools_and_a_flag_in_a_file(self):
        self.file.write_text(f"pool = file:{self.server.pool},size=32MiB\n"
                             f"pool = file:{self.server.pool}.second,size=32MiB\n"
                             f"fresh = false\nsocket = {self.server.socket}\n")
        process = subprocess.Popen([MARU, "serve", *UNIX_ONLY, "--json", "--config", self.file],
                                   stdout=subprocess.PIPE, text=True)
        told = json.loads(process.stdout.readline())
        process.terminate()
        self.assertEqual(process.wait(), 0)
        process.stdout.close()
        os.unlink(f"{self.server.pool}.second")
        self.assertEqual([p["path"] for p in told["pools"]],
                         [str(self.server.pool), f"{self.server.pool}.second"])
        self.assertEqual(told["sockets"][0], str(self.server.socket))


class Errors(unittest.TestCase):
    def test_an_unknown_command_is_named(self):
        done = maru("explode", "now")
        self.assertEqual(done.returncode, 2)
        self.assertIn('"explode"', done.stderr)
    def test_what_comes_later_says_what_to_use(self):
        for words, instead in ((["top"], "maru stat"), (["serve", "--metrics", "x:1"], "maru stat"),
                               (["serve", "--pool", "dax:/dev/dax0.0"], "shm:"),
                               (["serve", "--pool", "fsdax:/mnt,size=1GiB"], "file:"),
                               (["serve", "--pool", "numa:0,size=1GiB"], "shm:")):
            done = maru(*words)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertIn("this version", done.stderr)
            self.assertIn(instead, done.stderr)

    def test_each_command_without_a_server_is_exit_code_3(self):
        for words in (["put", "k", "/etc/hostname"], ["get", "k"], ["exists", "k"], ["rm", "k"],
                      ["unpin", "k"], ["release", "a"], ["ls"], ["stat"], ["stat", "--clients"],
                      ["audit"]):
            done = maru(*words, "--server", "/tmp/no-such.sock")
            self.assertEqual(done.returncode, 3, (words, done.stderr))
            self.assertIn("/tmp/no-such.sock", done.stderr)
            to_file = ("--output", "/dev/null") if words[0] == "get" else ()
            as_json = maru(*words, *to_file, "--server", "/tmp/no-such.sock", "--json")
            error = json.loads(as_json.stderr)
            self.assertEqual((error["error"], error["exit_code"], as_json.stdout),
                             ("Unavailable", 3, ""))

    def test_a_server_by_its_tcp_address_that_is_none(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))  # and nobody listens
            url = f"tcp://localhost:{free.getsockname()[1]}"
            done = maru("stat", "--server", url)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"no server listens at {url}", done.stderr)
            by_variable = maru("stat", env={**os.environ, "MARU_SERVER": url})
            self.assertEqual((by_variable.returncode, by_variable.stderr), (3, done.stderr))
        with socket.create_server(("127.0.0.1", 0)) as other:
            def answer():
                with other.accept()[0] as connection:
                    connection.sendall(b"SSH-2.0-nothing of ours\r\n")
                    while connection.recv(4096):
                        pass
            speaks = threading.Thread(target=answer)
            speaks.start()
            url = f"tcp://127.0.0.1:{other.getsockname()[1]}"
            done = maru("stat", "--server", url)
            speaks.join()
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"what listens at {url} is not a Maru server", done.stderr)
        for wrong in ("tcp://localhost", "tcp://*:5555", "http://localhost:5555"):
            done = maru("stat", "--server", wrong)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("localhost:5555" if wrong != "http://localhost:5555" else "@NAME",
                          done.stderr)

    def test_options_of_every_command_stand_before_it_too(self):
        before = maru("--server", "/tmp/no-such.sock", "--json", "get", "k", "--output",
                      "/dev/null")
        self.assertEqual(before.returncode, 3, before.stderr)
        self.assertIn("/tmp/no-such.sock", json.loads(before.stderr)["message"])
        # What stands behind the command counts, of a command with two words as well.
        both = maru("--server", "/tmp/no-such.sock", "ls", "--server", "/tmp/another.sock")
        self.assertIn("/tmp/another.sock", both.stderr)
        no_size = maru("--json", "pool", "init", "/tmp/x")
        self.assertEqual(json.loads(no_size.stderr)["exit_code"], 2)
        wrong = maru("--json", "explode")
        self.assertEqual((wrong.returncode, json.loads(wrong.stderr)["exit_code"]), (2, 2))
        self.assertIn("explode", wrong.stderr)

    def test_usage_errors_are_json_too(self):
        for words in (["put", "k", "--json"], ["get", "k", "--json"],
                      ["ls", "--json", "--limit", "many"], ["serve", "--json", "--pool", "tape:x"],
                      ["no-such", "--json"],
                      ["pool", "init", "/tmp/x", "--size", "1KiB", "--json"]):
            done = maru(*words)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertEqual(json.loads(done.stderr)["error"], "InvalidArgument")

    def test_wrong_values_name_flag_and_value(self):
        for words, said in ((["demo", "--instances", "1"], ("--instances", "1", "2 to 64")),
                            (["demo", "--page-size", "12 parsecs"], ("--page-size", "12 parsecs")),
                            (["ls", "--limit", "-1"], ("-1",)),
                            (["stat", "--clients", "--regions"], ("--clients", "--regions")),
                            (["serve", "--log-level", "loud"], ("loud", "warning")),
                            (["serve", "--pool", "shm:size=1MiB"], ("32MiB",)),
                            (["serve", "--pool", "shm:a/b,size=1GiB"], ("a/b",)),
                            (["serve", "--pool", "file:size=1GiB"], ("path",)),
                            (["serve", "--fresh", "--pool", "shm:maru-none"], ("--fresh", "size")),
                            (["serve", "--socket", ""], ("empty",)),
                            (["serve", "--socket", "@"], ("empty",)),
                            (["serve", "--socket", "x" * 200], ("200 bytes", "107")),
                            (["replay", "/no/such/trace"], ("/no/such/trace",)),
                            (["pool", "init", "/tmp/x"], ("--size",))):
            done = maru(*words)
            self.assertEqual(done.returncode, 1 if words[0] == "replay" else 2, done.stderr)
            for word in said:
                self.assertIn(word, done.stderr)


class Formats(unittest.TestCase):
    """A command prints each format, and its page names the command."""

    def setUp(self):
        self.server = Server(MARU).start()
        self.addCleanup(self.server.__exit__)
        self.server.run("put", "--namespace", "space", "--", "a key", "-", data=b"x" * 5000)
        listed = json.loads(self.server.run("ls", "--json", "--namespace", "space").stdout)
        self.record = listed["record"]

    def dump(self, part):
        done = maru("pool", "dump", self.server.pool, part, "--json")
        self.assertEqual(done.returncode, 0, (part, done.stderr))
        shown = json.loads(done.stdout)
        with open(self.server.pool, "rb") as pool:
            pool.seek(shown["offset_bytes"])
            raw = pool.read(len(shown["bytes"]) // 2).hex()
        if part != "root":
            self.assertEqual(shown["bytes"], raw, part)
        text = maru("pool", "dump", self.server.pool, part).stdout
        return text, shown["fields"], bytes.fromhex(shown["bytes"])

    def test_every_part(self):
        lines, fields, data = self.dump("superblock")
        self.assertTrue(data.startswith(b"MARUDEV\0"))
        self.assertIn("layout version: 1", lines)
        self.assertEqual((fields["layout_version"], fields["pool_bytes"]),
                         (1, pathlib.Path(self.server.pool).stat().st_size))
        lines, fields, _ = self.dump("root")
        self.assertIn("starts: 1", lines)
        self.assertEqual((fields["starts"], fields["clean"]), (1, False))
        lines, fields, _ = self.dump("region:0")
        self.assertIn("kind:", lines)
        self.assertIn(fields["kind"], ("pages", "records", "text", "index", "leases"))
        lines, fields, _ = self.dump("client:0")
        self.assertIn("client id:", lines)
        self.assertIn("label", fields)

    def test_every_part_of_a_key(self):
        lines, record, _ = self.dump(f"record:{self.record}")
        self.assertIn("state: live", lines)
        self.assertIn("length: 5000", lines)
        self.assertEqual((record["state"], record["length_bytes"], record["namespace_bytes"],
                          record["key_bytes"]), ("live", 5000, 5, 5))
        self.assertIn(f"home in the index: entry {record['index_home']}", lines)
        lines, fields, data = self.dump(f"text:{self.record}")
        self.assertEqual(data, b"spacea key")
        self.assertIn('"a key"', lines)
        self.assertEqual((fields["namespace"], fields["key"]), ("space", "a key"))
        lines, fields, _ = self.dump(f"index:{record['index_home']}")
        self.assertIn(f"entry {record['index_home']}: record {self.record}", lines)
        self.assertEqual(fields["entries"][0]["record"], self.record)

    def test_inspect_and_check_for_machines(self):
        shown = json.loads(maru("pool", "inspect", self.server.pool, "--json").stdout)
        self.assertTrue(shown["served"])
        self.assertEqual(shown["pages_by_state"]["live"], 1)
        self.assertEqual(sum(shown["pages_by_state"].values()), shown["pages"])
        self.assertEqual(shown["pages"], sum(size["pages"] for size in shown["page_sizes"]))
        self.assertEqual(shown["root"]["starts"], 1)
        kinds = {region["kind"] for region in shown["regions"]}
        self.assertEqual(kinds, set(shown["kinds"]))
        covered = sum(region["length_bytes"] for region in shown["regions"])
        self.assertEqual(covered + shown["head_bytes"] + shown["free_bytes"],
                         shown["superblock"]["pool_bytes"])
        with self.server.waiting_instance():
            shown = json.loads(maru("pool", "inspect", self.server.pool, "--json").stdout)
            self.assertEqual([client["lives"] for client in shown["clients"]], [True])
        self.assertEqual(self.server.stop(), 0)
        report = json.loads(maru("pool", "check", self.server.pool, "--json").stdout)
        self.assertEqual((report["ok"], report["clean"], report["keys"]), (True, True, 1))
        self.assertEqual(report["pages_by_state"]["live"], 1)
        self.assertEqual(sum(report["pages_by_state"].values()), report["pages"])
        self.assertEqual((report["extents"], report["clients"]), (0, 0))
        # Nothing but that the server stopped before the region of the key had all its memory.
        self.assertEqual([mend for mend in report["mends"] if "have no pages yet" not in mend], [])
        self.assertEqual(report["mends_left_out"], 0)

    def test_lease_blocks_of_an_attached_client(self):
        with self.server.waiting_instance():
            shown = [maru("pool", "dump", self.server.pool, f"leases:{slot}").stdout
                     for slot in range(8)]
            slot = next(i for i, text in enumerate(shown) if "slots high: " in text)
            _, fields, _ = self.dump(f"leases:{slot}")
        self.assertEqual(len([text for text in shown if "slots high: " in text]), 1, shown)
        self.assertEqual([block["ordinal"] for block in fields["blocks"]], [0, 1])
        self.assertEqual(fields["blocks"][0]["pending_pages"], 0)

    def test_wrong_parts(self):
        for part, code in (("record", 2), ("record:x", 2), ("superblock:1", 2), ("soul", 2),
                           ("record:4294967295", 1), ("record:0", 1), ("region:99999999", 1),
                           ("client:1024", 1), ("index:99999999999", 1), ("text:2000000000", 1),
                           ("leases:1023", 1)):
            done = maru("pool", "dump", self.server.pool, part)
            self.assertEqual(done.returncode, code, (part, done.stderr))
        self.assertEqual(maru("pool", "dump", "/etc/passwd", "superblock").returncode, 1)
        self.assertEqual(maru("pool", "dump", "/no/such", "superblock").returncode, 1)

    def frame(self, text, *words):
        return subprocess.run([MARU, "frame", "-", *words], input=text, capture_output=True)

    def test_frames(self):
        ping = b"4d415255 0b00 0000 00000000 00000000 0100000000000000 0000000000000000\n"
        done = self.frame(ping)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"ping request (11)", done.stdout)
        self.assertEqual(self.frame(bytes.fromhex(ping.decode())).stdout, done.stdout)
        shown = json.loads(self.frame(ping, "--json").stdout)
        self.assertEqual((shown["message"], shown["reply"], shown["request_number"],
                          shown["payload"]), ("ping", False, 1, {}))
        for wrong, code in ((b"", 4), (b"4d4152", 4), (b"4d4", 2), (b"xyz", 2),
                            (ping.replace(b"0b00", b"6300"), 4),
                            (ping.replace(b"0000 00000000 0", b"0000 01000000 0"), 4)):
            self.assertEqual(self.frame(wrong).returncode, code, wrong)

    def test_the_worked_examples_of_the_format_page(self):
        page = (SOURCE / "docs" / "formats" / "frame.md").read_text()
        examples = re.findall(r"```dump (\S+)\n(.*?)```", page, re.DOTALL)
        self.assertGreater(len(examples), 5)
        for name, lines in examples:
            text = "".join(re.sub(r"^[0-9a-f]+:|;.*$", "", line) for line in lines.splitlines())
            done = self.frame(text.encode())
            self.assertEqual(done.returncode, 0, (name, done.stderr))
            self.assertIn(b"message: ", done.stdout)

    def examples(self, page):
        text = (SOURCE / "docs" / "formats" / page).read_text()
        return {name: bytes.fromhex("".join(re.sub(r"^[0-9a-f]+:|;.*$", "", line)
                                            for line in lines.splitlines()))
                for name, lines in re.findall(r"```dump (\S+)\n(.*?)```", text, re.DOTALL)}

    def test_messages_of_upstreams_protocols(self):
        shown = {}
        for page, prefix in (("upstream_metadata.md", ""), ("upstream_resource_manager.md", "rm-")):
            for name, message in self.examples(page).items():
                if name.startswith("zmtp"):
                    continue  # what carries the messages
                done = self.frame(message.hex().encode(), "--json")
                self.assertEqual(done.returncode, 0, (name, done.stderr))
                shown[prefix + name] = json.loads(done.stdout)
                self.assertEqual(bytes.fromhex(shown[prefix + name]["bytes"]), message)
                self.assertEqual(self.frame(message).returncode, 0, name)
                for cut in (1, len(message) // 2):
                    self.assertEqual(self.frame(message[:-cut].hex().encode()).returncode, 4,
                                     (name, cut))
        self.assertEqual(shown["register-request"]["message"], "REGISTER_KV")
        self.assertEqual(shown["register-request"]["payload"]["key"], "hello world")
        self.assertTrue(shown["register-reply"]["reply"])
        self.assertEqual(shown["batch-lookup-request"]["payload"]["keys"],
                         ["hello world", "missing"])
        self.assertEqual(shown["rm-alloc-reply"]["payload"]["path"], "/dev/shm/maru-1000")
        self.assertEqual(shown["rm-alloc-reply"]["payload"]["handle"]["region_id"], 5242881)
        lines = self.frame(self.examples("upstream_metadata.md")["batch-lookup-request"]).stdout
        self.assertIn(b'payload.keys[1]: "missing"', lines)

    def test_each_page_names_its_command(self):
        for page in (SOURCE / "docs" / "formats").glob("*.md"):
            frames = page.name == "frame.md" or page.name.startswith("upstream_")
            wanted = "`maru frame" if frames else "`maru pool dump"
            self.assertIn(wanted, page.read_text(), page.name)


if __name__ == "__main__":
    unittest.main()
