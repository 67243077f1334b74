# SPDX-License-Identifier: MIT
"""A headless Chromium, driven through the DevTools protocol with nothing but the standard library."""
import base64
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time

CANDIDATES = ("chromium", "chromium-browser", "google-chrome")

# Texts whose contrast with what lies behind them is below WCAG 2.1's level AA (1.4.3: 4.5, large ones 3): [text, ratio, colours].
# What is disabled is excepted there; texts of SVG and canvas are not looked at.
FAINT = """(() => {
  const parse = text => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = c => c.slice(0, 3).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = e => { const layers = [];
    for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); layers.push(c); if (c[3] === 1) break; }
    return layers.reverse().reduce((below, c) => over(c, below), [255, 255, 255, 1]); };
  const found = new Map(), texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const e = text.parentElement, style = getComputedStyle(e);
    if (!text.data.trim() || e.closest('svg, canvas, script, style, [disabled], [hidden]') || style.visibility !== 'visible' || !e.getClientRects().length) continue;
    const ground = behind(e), colour = parse(style.color);
    for (let up = e; up; up = up.parentElement) colour[3] *= +getComputedStyle(up).opacity;
    const a = light(over(colour, ground)), b = light(ground), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && +style.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) found.set(style.color + ground, [text.data.trim().slice(0, 40), +ratio.toFixed(2), style.color, ground.join()]);
  }
  return [...found.values()]; })()"""


class Error(Exception):
    pass


class WebSocket:
    """RFC 6455, client side, text frames."""

    def __init__(self, port, path):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=300)
        self.received = b""
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
                             f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                             "Sec-WebSocket-Version: 13\r\n\r\n").encode())
        while b"\r\n\r\n" not in self.received:
            self._more()
        head, self.received = self.received.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise Error(head.decode(errors="replace"))

    def _more(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise Error("the browser closed the connection")
        self.received += data

    def _take(self, n):
        while len(self.received) < n:
            self._more()
        data, self.received = self.received[:n], self.received[n:]
        return data

    def send(self, text):
        data = text.encode()
        n = len(data)
        head = bytes([0x81]) + (bytes([0x80 | n]) if n < 126 else
                                struct.pack(">BH", 0x80 | 126, n) if n < 65536 else
                                struct.pack(">BQ", 0x80 | 127, n))
        mask = os.urandom(4)
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def receive(self):
        message = b""
        while True:
            first, second = self._take(2)
            n = second & 127
            if n == 126:
                n, = struct.unpack(">H", self._take(2))
            elif n == 127:
                n, = struct.unpack(">Q", self._take(8))
            data = self._take(n)
            if first & 15 in (0, 1):
                message += data
                if first & 0x80:
                    return message.decode()
            elif first & 15 == 8:
                raise Error("the browser closed the connection")


class Page:
    """One tab. `errors` collects what the console, the page or the network complain of, `requests` what it asks for."""

    def __init__(self, binary=None, size=(1600, 1000)):
        binary = binary or next(filter(None, map(shutil.which, CANDIDATES)), None)
        if not binary:
            raise Error("no chromium")
        self.directory = tempfile.mkdtemp(prefix="cprofd-browser-")
        self.process = subprocess.Popen(
            [binary, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             "--disable-extensions", "--disable-background-networking", "--disable-component-update",
             "--disable-dev-shm-usage", "--enable-unsafe-swiftshader",
             f"--window-size={size[0]},{size[1]}", "--remote-debugging-port=0",
             f"--user-data-dir={self.directory}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.errors, self.requests, self.count = [], [], 0
        port, path = self._port()
        self.socket = WebSocket(port, path)
        target = self.call("Target.createTarget", {"url": "about:blank"})
        self.session = None
        self.session = self.call("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def _port(self):
        file = pathlib.Path(self.directory, "DevToolsActivePort")
        for _ in range(1200):
            if file.exists() and file.read_text().count("\n") >= 1:
                port, path = file.read_text().split("\n")[:2]
                return int(port), path
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise Error("chromium did not start")

    def call(self, method, params=None):
        self.count += 1
        number = self.count
        message = {"id": number, "method": method, "params": params or {}}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        while True:
            answer = json.loads(self.socket.receive())
            if answer.get("id") == number:
                if "error" in answer:
                    raise Error(f"{method}: {answer['error']}")
                return answer["result"]
            self._event(answer)

    def _event(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method in ("Inspector.targetCrashed", "Target.targetCrashed"):
            raise Error("the tab crashed")

    def run(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        result = self.call("Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in result:
            raise Error(result["exceptionDetails"].get("exception", {}).get("description", "exception"))
        return result["result"].get("value")

    def wait(self, expression, seconds=120):
        """Until it is true; its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(expression)
            if value:
                return value
            time.sleep(0.1)
        raise Error(f"not within {seconds} s: {expression}")

    def open(self, url):
        self.call("Page.navigate", {"url": url})

    def mouse(self, kind, x, y, **more):
        """kind: mousePressed, mouseReleased, mouseMoved."""
        button = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
        self.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **button, **more})

    def click(self, x, y):
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def key(self, key):
        """A letter, a digit, or a named key such as Escape."""
        code = key if len(key) > 1 else ("Digit" if key.isdigit() else "Key") + key.upper()
        self.call("Input.dispatchKeyEvent", {"type": "keyDown", "key": key, "code": code, "text": key if len(key) == 1 else ""})
        self.call("Input.dispatchKeyEvent", {"type": "keyUp", "key": key, "code": code})

    def screenshot(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", {"format": "png"})["data"]))

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
