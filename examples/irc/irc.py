"""A channel for Pincer: IRC. One JSON-RPC message per line on stdin and stdout; logs go to stderr.

`channels.<name>.config` in Pincer's config has: host, port, tls, nick, realName, password (of the server), sasl {user, password},
nickServ (a password), join (names of IRC channels), listen ("mention" or "all"), senderIs ("nick", "account" or "mask"), lineBytes,
burst and lineEveryMs.
"""

import base64
import json
import os
import queue
import re
import socket
import ssl
import sys
import threading
import time
import uuid
from collections import OrderedDict

LONGEST_PAUSE = 60  # seconds between two attempts to connect, or to hand a message over
REGAIN = 15  # seconds between two attempts to get the wanted nick
SILENCE = 120  # seconds after which the server is asked whether it is there
PATIENCE = 300  # seconds in which a person who is not there may come back
CONFIRMATION = 30  # seconds in which the server has to confirm what it was sent
KEPT_LINES = 5000  # lines of a journal that are no longer needed before it is written anew
KEPT_IDS = 1000  # texts that are known to have been sent
CAPS = {"message-tags", "account-tag", "server-time"}
AWAY = "401"
NOT_SENT = { "402", "403", "404", "407", "411", "412", "413", "414", "461", "477", "482", "531"}
NOT_JOINED = {"403", "405", "437", "471", "473", "474", "475", "476", "477"}


class Gone(Exception):
    """The connection is over."""


class NotSent(Exception):
    def __init__(self, message, permanent, retry_after=None):
        super().__init__(message)
        self.data = {"permanent": permanent}
        if retry_after is not None:
            self.data["retryAfterMs"] = int(retry_after * 1000)


# ---------------------------------------------------------------- Pincer

writing = threading.Lock()


def send(message):
    line = json.dumps({"jsonrpc": "2.0", **message})
    with writing:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class Pincer:
    """Requests to Pincer, and their answers."""

    def __init__(self):
        self.lock = threading.Lock()
        self.waiting = {}
        self.count = 0

    def ask(self, method, params, timeout):
        with self.lock:
            self.count += 1
            number, answer = self.count, queue.Queue()
            self.waiting[number] = answer
        send({"id": number, "method": method, "params": params})
        try:
            return answer.get(timeout=timeout)
        except queue.Empty:
            return None
        finally:
            with self.lock:
                self.waiting.pop(number, None)

    def answered(self, message):
        with self.lock:
            answer = self.waiting.get(message["id"])
        if answer:
            answer.put(message)


pincer = Pincer()


# ---------------------------------------------------------------- what must outlive this process


class Journal:
    """Lines in a file, each with an id: those that are not done are still there when the file is read again."""

    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()
        self.open = OrderedDict()
        self.lines = 0
        try:
            with open(path, encoding="utf-8") as file:
                for line in file:
                    try:
                        self._apply(json.loads(line))
                    except (ValueError, KeyError):
                        pass  # the last line may be cut off
        except FileNotFoundError:
            pass
        self._rewrite()

    def _rewrite(self):
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            for key, value in self.open.items():
                file.write(json.dumps({"id": key, "value": value}) + "\n")
        os.replace(self.path + ".new", self.path)
        self.file, self.lines = open(self.path, "a", encoding="utf-8"), len(self.open)

    def _apply(self, entry):
        if entry.get("done"):
            self.open.pop(entry["id"], None)
        else:
            self.open[entry["id"]] = entry.get("value")

    def write(self, entry):
        with self.lock:
            self._apply(entry)
            self.file.write(json.dumps(entry) + "\n")
            self.file.flush()
            self.lines += 1
            if self.lines > 2 * len(self.open) + KEPT_LINES:
                self.file.close()
                self._rewrite()


class SentIds:
    """The texts that were sent: one that is asked for again, because Pincer died before it could note it, is not sent twice."""

    def __init__(self, path):
        self.journal = Journal(path)
        while len(self.journal.open) > KEPT_IDS:
            self.journal.write({"id": next(iter(self.journal.open)), "done": True})

    def __contains__(self, key):
        return key in self.journal.open

    def add(self, key):
        self.journal.write({"id": key})
        if len(self.journal.open) > KEPT_IDS:
            self.journal.write({"id": next(iter(self.journal.open)), "done": True})


# ---------------------------------------------------------------- IRC


def lowered(name):
    """Names that differ in this way only are the same to a server."""
    return name.lower().translate(str.maketrans("[]\\~", "{}|^"))


def parse(line):
    tags, prefix = {}, ""
    if line.startswith("@"):
        text, _, line = line.partition(" ")
        for tag in text[1:].split(";"):
            key, _, value = tag.partition("=")
            tags[key] = value
        line = line.lstrip(" ")
    if line.startswith(":"):
        prefix, _, line = line[1:].partition(" ")
    line, _, last = line.partition(" :")
    words = line.split()
    command, params = (words[0].upper() if words else ""), words[1:]
    if _:
        params.append(last)
    return tags, prefix, command, params


def lines_of(text, most):
    """A text as lines of at most so many bytes, cut between words where that is possible."""
    # What begins and ends with this byte would be a request to the other side's program.
    text = text.replace("\x01", "").replace("\0", "")
    for line in re.split(r"[\r\n]+", text):
        line = line.rstrip()
        while len(line.encode()) > most:
            cut = line.encode()[:most].decode(errors="ignore")
            space = cut.rfind(" ")
            if space > len(cut) // 2:
                cut = cut[:space]
            yield cut.rstrip()
            line = line[len(cut):].lstrip()
        if line:
            yield line


def is_target(name):
    """Whether a text is the name of one person or one channel. Anything else could be further commands, or a whole server."""
    return bool(re.fullmatch(r"[#&+!]?[^\s,:*!@$\x00-\x20][^\s,\x00-\x20]*", name)) and len(name.encode()) <= 200


class Irc:
    def __init__(self, name, config, state):
        self.name = name
        self.host, self.tls = config["host"], bool(config.get("tls", False))
        self.port = int(config.get("port", 6697 if self.tls else 6667))
        self.wanted_nick = self.nick = config["nick"]
        self.real_name = config.get("realName", "Pincer")
        self.password, self.sasl, self.nick_serv = config.get("password"), config.get("sasl"), config.get("nickServ")
        self.join = config.get("join", [])
        self.all = config.get("listen", "mention") == "all"
        self.sender_is = config.get("senderIs", "nick")
        self.line_bytes = min(max(int(config.get("lineBytes", 400)), 50), 440)
        self.burst, self.every = max(int(config.get("burst", 4)), 1), int(config.get("lineEveryMs", 1000)) / 1000
        if not is_target(self.nick) or self.nick[0] in "#&+!0123456789-":
            raise ValueError(f"config.nick: {self.nick!r} cannot be a nick")
        if self.sender_is not in ("nick", "account", "mask"):
            raise ValueError("config.senderIs is nick, account or mask")
        for channel in self.join:
            if not is_target(channel) or channel[0] not in "#&+!":
                raise ValueError(f"config.join: {channel!r} is not the name of an IRC channel")
        self.socket, self.up, self.stopped = None, False, False
        self.lock = threading.Lock()
        self.tokens, self.filled = float(self.burst), time.monotonic()
        self.jobs, self.confirmed, self.refusals = queue.Queue(), {}, {}
        self.away_since = {}
        os.makedirs(state, exist_ok=True)
        self.sent = SentIds(os.path.join(state, "sent.jsonl"))
        self.inbox = Journal(os.path.join(state, "received.jsonl"))
        self.received = queue.Queue()
        for message in self.inbox.open.values():
            self.received.put(message)
        for work in (self.connect_again, self.send_jobs, self.hand_over):
            threading.Thread(target=work, daemon=True).start()

    # -------------------------------------------------- the connection

    def state(self, state, detail=None):
        send({"method": "channel/state", "params": {"channel": self.name, "state": state, "detail": detail}})

    def connect_again(self):
        pause = 1
        while not self.stopped:
            why, was_up = "the server closed the connection", False
            try:
                self.connect()
                self.attend()
            except (OSError, Gone, ssl.SSLError) as error:
                why = str(error) or type(error).__name__
            finally:
                was_up, self.up = self.up, False
                self.close()
            if self.stopped:
                return
            self.state("down", f"{self.host}:{self.port}: {why}")
            pause = 1 if was_up else min(pause * 2, LONGEST_PAUSE)
            time.sleep(pause)

    def connect(self):
        raw = socket.create_connection((self.host, self.port), timeout=30)
        if self.tls:
            raw = ssl.create_default_context().wrap_socket(raw, server_hostname=self.host)
        raw.settimeout(SILENCE)
        self.nick, self.to_join, self.ready_at = self.wanted_nick, None, None
        with self.lock:
            self.socket = raw
            self.tokens, self.filled = float(self.burst), time.monotonic()
        self.raw("CAP LS 302")
        if self.password:
            self.raw(f"PASS {self.password}")
        self.raw(f"NICK {self.nick}")
        self.raw(f"USER {re.sub('[^A-Za-z0-9]', '', self.nick)[:9] or 'pincer'} 0 * :{self.real_name}")

    def close(self):
        with self.lock:
            if self.socket:
                try:
                    self.socket.close()
                except OSError:
                    pass
            self.socket = None

    def raw(self, line):
        data = (re.sub(r"[\r\n\0]", " ", line) + "\r\n").encode()
        with self.lock:
            if not self.socket:
                raise Gone("not connected")
            self.socket.sendall(data)

    def attend(self):
        buffer, asked = b"", False
        connection = self.socket
        while not self.stopped:
            if self.to_join is not None and not self.up and time.monotonic() > self.ready_at:
                self.is_up()
            try:
                is_joining = not self.up and self.to_join is not None
                has_other_nick = self.up and self.nick != self.wanted_nick
                connection.settimeout(1 if is_joining else REGAIN if has_other_nick else SILENCE)
                data = connection.recv(8192)
            except (socket.timeout, TimeoutError):
                if is_joining:
                    continue
                if has_other_nick:
                    self.raw(f"NICK {self.wanted_nick}")
                    continue
                if asked:
                    raise Gone("the server says nothing any more")
                asked = True
                self.raw("PING :alive")
                continue
            if not data:
                raise Gone("the server closed the connection")
            asked = False
            buffer += data
            if len(buffer) > 1 << 16 and b"\n" not in buffer:
                raise Gone("the server sent a line without an end")
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                self.heard(*parse(line.decode(errors="replace").rstrip("\r")))

    def is_up(self):
        self.up = True
        self.state("up")

    def heard(self, tags, prefix, command, params):
        if command == "PING":
            self.raw(f"PONG :{params[-1] if params else ''}")
        elif command == "PONG" and params:
            event = self.confirmed.get(params[-1])
            if event:
                event.set()
        elif command == "CAP":
            self.heard_caps(params)
        elif command == "AUTHENTICATE":
            user, password = self.sasl["user"], self.sasl["password"]
            plain = base64.b64encode(f"{user}\0{user}\0{password}".encode()).decode()
            self.raw(f"AUTHENTICATE {plain}")
        elif command == "903":
            self.raw("CAP END")
        elif command in ("902", "904", "905", "906", "908"):
            raise Gone("the server refuses the login (SASL)")
        elif command == "433" and self.to_join is None:
            self.nick += "_"
            self.raw(f"NICK {self.nick}")
        elif command == "001":
            self.nick = params[0]
            if self.nick_serv:
                self.raw(f"PRIVMSG NickServ :IDENTIFY {self.nick_serv}")
            self.to_join, self.ready_at = {lowered(name) for name in self.join}, time.monotonic() + 10
            for name in self.join:
                self.raw(f"JOIN {name}")
            if not self.to_join:
                self.is_up()
        elif command == "NICK" and lowered(prefix.split("!")[0]) == lowered(self.nick):
            self.nick = params[0]
        elif command == "JOIN" and lowered(prefix.split("!")[0]) == lowered(self.nick):
            self.joined(params[0])
        elif command == "KICK" and len(params) > 1 and lowered(params[1]) == lowered(self.nick):
            timer = threading.Timer(10, self.rejoin, [params[0]])
            timer.daemon = True
            timer.start()
        elif command == "ERROR":
            raise Gone(params[-1] if params else "the server ended the connection")
        elif command == "PRIVMSG" and len(params) > 1:
            self.said(tags, prefix, params[0], params[1])
        elif command in NOT_SENT | NOT_JOINED | {AWAY} and len(params) > 1:
            self.refusals[lowered(params[1])] = (command, params[-1])
            if command in NOT_JOINED:
                self.joined(params[1])

    def heard_caps(self, params):
        subcommand, offered = (params[1].upper() if len(params) > 1 else ""), (params[-1].split() if params else [])
        if subcommand == "LS":
            wanted = CAPS | ({"sasl"} if self.sasl else set())
            wanted &= {cap.split("=")[0] for cap in offered}
            if self.sasl and "sasl" not in wanted:
                raise Gone("the server has no SASL, and config.sasl asks for it")
            self.raw(f"CAP REQ :{' '.join(sorted(wanted))}" if wanted else "CAP END")
        elif subcommand == "ACK" and "sasl" in offered:
            self.raw("AUTHENTICATE PLAIN")
        elif subcommand in ("ACK", "NAK"):
            self.raw("CAP END")

    def joined(self, name):
        if self.to_join is not None:
            self.to_join.discard(lowered(name))
            if not self.to_join and not self.up:
                self.is_up()

    def rejoin(self, name):
        try:
            self.raw(f"JOIN {name}")
        except (OSError, Gone):
            pass

    # -------------------------------------------------- from IRC to Pincer

    def said(self, tags, prefix, target, text):
        nick = prefix.split("!")[0]
        if lowered(nick) == lowered(self.nick):
            return
        if text.startswith("\x01"):
            action = re.fullmatch("\x01ACTION (.*?)\x01?", text)
            if not action:
                return
            text = f"* {nick} {action.group(1)}"
        is_group = target[:1] in "#&+!"
        if is_group:
            text = self.addressed(text)
            if text is None:
                return
        sender = {"nick": lowered(nick), "mask": prefix.lower(), "account": tags.get("account", "")}[self.sender_is]
        if not sender:
            return  # not logged in: this sender has no identity
        message = {
            "channel": self.name,
            "messageId": tags.get("msgid") or uuid.uuid4().hex,
            "sender": sender,
            "senderName": nick,
            "group": lowered(target) if is_group else None,
            "to": target if is_group else nick,
            "text": text,
            "at": int(time.time() * 1000),
        }
        # First of all where it outlives this process: IRC does not say anything twice.
        self.inbox.write({"id": message["messageId"], "value": message})
        self.received.put(message)

    def addressed(self, text):
        """The text without the mention of us, or nothing if it is not for us."""
        begins = re.match(rf"@?{re.escape(self.nick)}\s*[:,]?\s+", text, re.IGNORECASE)
        if begins:
            return text[begins.end():]
        named = re.search(rf"(?<![\w-]){re.escape(self.nick)}(?![\w-])", text, re.IGNORECASE)
        return text if self.all or named else None

    def hand_over(self):
        while True:
            message, pause = self.received.get(), 1
            while True:
                answer = pincer.ask("channel/received", message, timeout=90)
                error = answer and answer.get("error")
                if answer and not (error and (error.get("data") or {}).get("retry")):
                    break
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            if error:
                print(f"not taken: {error['message']}", file=sys.stderr)
            self.inbox.write({"id": message["messageId"], "done": True})

    # -------------------------------------------------- from Pincer to IRC

    def send_jobs(self):
        while True:
            number, params = self.jobs.get()
            try:
                self.say(params["id"], params["to"], params["text"])
                send({"id": number, "result": {"messageId": params["id"]}})
            except NotSent as error:
                send({"id": number, "error": {"code": 1, "message": str(error), "data": error.data}})
            except (OSError, Gone) as error:
                why = f"the connection broke before the server had confirmed it ({error})"
                send({"id": number, "error": {"code": 2, "message": why}})

    def say(self, key, to, text):
        if key in self.sent:
            return
        if not is_target(to):
            raise NotSent(f"{to!r} is not the name of a person or channel", True)
        if not self.up:
            raise NotSent(f"not connected to {self.host}", False)
        self.refusals.pop(lowered(to), None)
        for line in lines_of(text, self.line_bytes):
            self.wait_for_room()
            self.raw(f"PRIVMSG {to} :{line}")
        # The server answers in order: when this comes back, it has dealt with all of the above.
        token = uuid.uuid4().hex
        event = self.confirmed[token] = threading.Event()
        try:
            self.raw(f"PING :{token}")
            deadline = time.monotonic() + CONFIRMATION
            while not event.wait(0.2):
                if not self.up or time.monotonic() > deadline:
                    raise Gone("no confirmation")
        finally:
            del self.confirmed[token]
        command, refusal = self.refusals.pop(lowered(to), (None, None))
        if command == AWAY and to[0] not in "#&+!":
            # After a restart of the server people come back one by one. If this waited too long, another person could take the name.
            since = self.away_since.setdefault(key, time.monotonic())
            raise NotSent(f"{to}: {refusal}", time.monotonic() - since > PATIENCE, 3)
        if refusal:
            raise NotSent(f"{to}: {refusal}", True)
        self.away_since.pop(key, None)
        self.sent.add(key)

    def wait_for_room(self):
        """A few lines at once, then one after the other: servers end connections that flood them."""
        while True:
            now = time.monotonic()
            self.tokens = min(self.burst, self.tokens + (now - self.filled) / self.every if self.every else self.burst)
            self.filled = now
            if self.tokens >= 1:
                self.tokens -= 1
                return
            time.sleep((1 - self.tokens) * self.every)

    def stop(self):
        self.stopped = True
        try:
            self.raw("QUIT :bye")
        except (OSError, Gone):
            pass
        self.close()


# ---------------------------------------------------------------- the protocol

channels = {}


def handle(number, method, params):
    if method == "initialize":
        return {"protocolVersion": 1}
    if method == "channel/start":
        name = params["channel"]
        if name in channels:
            channels.pop(name).stop()
        try:
            channels[name] = Irc(name, params["config"], params["stateDir"])
        except KeyError as error:
            raise NotSent(f"config has no {error.args[0]!r}", True)
        except (ValueError, TypeError) as error:
            raise NotSent(str(error), True)
        return None
    if method == "channel/send":
        if params["channel"] not in channels:
            raise NotSent("this channel is not started", False)
        channels[params["channel"]].jobs.put((number, params))
        return ...  # answered when the server has confirmed it
    if method == "channel/stop":
        if params["channel"] in channels:
            channels.pop(params["channel"]).stop()
        return None
    if method in ("shutdown", "channel/typing"):
        return None
    raise ValueError(f"unknown method {method}")


def main():
    for line in sys.stdin:
        message = json.loads(line)
        number, method = message.get("id"), message.get("method")
        if method is None:
            pincer.answered(message)
        elif number is not None:
            try:
                result = handle(number, method, message.get("params") or {})
                if result is not ...:
                    send({"id": number, "result": result})
            except NotSent as error:
                send({"id": number, "error": {"code": 1, "message": str(error), "data": error.data}})
            except Exception as error:  # what goes wrong is told, not died of
                send({"id": number, "error": {"code": -32000, "message": str(error)}})
        if method == "shutdown":
            break
    for channel in list(channels.values()):
        channel.stop()


if __name__ == "__main__":
    main()
