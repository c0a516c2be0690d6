// The front of the executable: it takes a runtime's call to coild, and all that
// is not as it should be to the whole program, with nothing lost. The whole
// program is a recorder here; one_file_test.ts has the real one.
import assert from "node:assert/strict";
import { concatenate } from "../../lib/bytes/mod.ts";
import { placePlugin } from "../lab/plugin_file.ts";
import { awaitedLater, sleep } from "../lab/wait.ts";
import { type Input, type Output, runFile } from "./testing.ts";

const CALL = {
  CNI_COMMAND: "ADD",
  CNI_CONTAINERID: "cid0",
  CNI_NETNS: "/run/netns/a b",
  CNI_ARGS: "A=b;C==d",
};

/** In the whole program's place: says how it was called, and what it was given. */
const RECORDER = `#!/bin/sh
echo "program $#:$*:$CNI_COMMAND:$OTHER:$(cat | sha256sum)"
exit 7
`;

async function digestLine(stdin: string): Promise<string> {
  const bytes = new TextEncoder().encode(stdin);
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  return `${new Uint8Array(digest).toHex()}  -`;
}

/** A directory of plugins, and somebody at coild's socket. */
class Site implements AsyncDisposable {
  readonly directory: string;
  readonly coil: string;
  readonly #stack = new AsyncDisposableStack();

  private constructor(directory: string, coil: string) {
    this.directory = directory;
    this.coil = coil;
    this.#stack.defer(() => Deno.remove(directory, { recursive: true }));
  }

  static async make(
    options: { readonly patienceS?: number } = {},
  ): Promise<Site> {
    const directory = await Deno.makeTempDir();
    const executable = `${directory}/recorder`;
    await Deno.writeTextFile(executable, RECORDER, { mode: 0o755 });
    const socket = `${directory}/coild.sock`;
    const plugins = `${directory}/bin`;
    const coil = await placePlugin(plugins, {
      ...options,
      executable,
      socket,
    });
    return new Site(directory, coil);
  }

  /** Somebody at the socket. */
  listen(): Deno.UnixListener {
    return Deno.listen({
      transport: "unix",
      path: `${this.directory}/coild.sock.cni`,
    });
  }

  /** Answers one call; the bytes that it sent. */
  async serveOne(
    answer: (connection: Deno.UnixConn) => Promise<void>,
  ): Promise<Uint8Array> {
    using listener = this.listen();
    using connection = await listener.accept();
    const request = await readRequest(connection);
    assert.ok(request, "the front left in the middle");
    await answer(connection);
    return request;
  }

  async call(input: Input): Promise<Output> {
    return await runFile(this.coil, input);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** All that a request says that it has; undefined when the front left in the middle. */
async function readRequest(
  connection: Deno.UnixConn,
): Promise<Uint8Array | undefined> {
  let bytes = new Uint8Array();
  const buffer = new Uint8Array(1 << 20);
  for (;;) {
    const count = await connection.read(buffer);
    if (count === null) return undefined;
    bytes = concatenate([bytes, buffer.subarray(0, count)]);
    if (bytes.length < 16) continue;
    const view = new DataView(bytes.buffer);
    const size = 16 + view.getUint32(8, true) + view.getUint32(12, true);
    assert.ok(bytes.length <= size);
    if (bytes.length === size) return bytes;
  }
}

function answerOf(
  stdout: string,
  { magic = "COILCNI1", exitCode = 0, extra = 0 } = {},
): Uint8Array {
  const text = new TextEncoder().encode(stdout);
  const bytes = new Uint8Array(16 + text.length);
  bytes.set(new TextEncoder().encode(magic));
  const view = new DataView(bytes.buffer);
  view.setUint32(8, exitCode, true);
  view.setUint32(12, text.length + extra, true);
  bytes.set(text, 16);
  return bytes;
}

async function send(connection: Deno.UnixConn, bytes: Uint8Array) {
  for (let rest = bytes; rest.length > 0;) {
    rest = rest.subarray(await connection.write(rest));
  }
}

for (const exitCode of [0, 1]) {
  Deno.test(`the front prints coild's answer, and ends with its code, ${exitCode}`, async () => {
    await using site = await Site.make();
    const stdout = `{"x": "${"é".repeat(30_000)}"}`;
    const served = awaitedLater(site.serveOne(async (connection) => {
      const bytes = answerOf(stdout, { exitCode });
      // In pieces, as a stream may bring them.
      await send(connection, bytes.subarray(0, 5));
      await send(connection, bytes.subarray(5, 17));
      await send(connection, bytes.subarray(17));
    }));
    const stdin = '{"name": "n"}';
    const output = await site.call({ env: { ...CALL, OTHER: "x" }, stdin });
    assert.deepEqual(output, { code: exitCode, stdout, stderr: "" });
    const text = new TextDecoder().decode((await served).subarray(16));
    const variables = text.slice(0, text.lastIndexOf("\0")).split("\0");
    assert.deepEqual(
      variables.sort(),
      Object.entries(CALL).map(([name, value]) => `${name}=${value}`).sort(),
    );
    assert.equal(text.slice(text.lastIndexOf("\0") + 1), stdin);
  });
}

/** What somebody at the socket may do, and what the front must not take for an answer. */
const WRONG: Readonly<
  Record<string, (connection: Deno.UnixConn) => Promise<void>>
> = {
  "closes": () => Promise.resolve(),
  "sends a part of a head": (c) => send(c, answerOf("").subarray(0, 15)),
  "sends less than it said": (c) => send(c, answerOf("{}", { extra: 1 })),
  "sends more than it said": (c) => send(c, answerOf("{}", { extra: -1 })),
  "speaks another protocol": (c) =>
    send(c, answerOf("{}", { magic: "HTTP/1.1" })),
  "has a code that is none": (c) => send(c, answerOf("{}", { exitCode: 2 })),
  "sends too much": async (c) => {
    try {
      await send(c, answerOf("x".repeat(300_000)));
    } catch (error) {
      if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
    }
  },
};

for (const [what, answer] of Object.entries(WRONG)) {
  Deno.test(`a coild that ${what} leaves the call to the whole program, with all of its stdin`, async () => {
    await using site = await Site.make();
    const stdin = JSON.stringify({ padding: "x".repeat(20_000) });
    const served = awaitedLater(site.serveOne(answer));
    const output = await site.call({ env: { ...CALL, OTHER: "x" }, stdin });
    await served;
    assert.deepEqual(output, {
      code: 7,
      stdout: `program 0::ADD:x:${await digestLine(stdin)}\n`,
      stderr: "",
    });
  });
}

/** How a coild may be silent. On a slow machine the front may leave while it is still being read. */
const SILENT: Readonly<
  Record<string, (connection: Deno.UnixConn) => Promise<unknown>>
> = {
  "takes a call and says nothing": (c) => readRequest(c),
  "says half of an answer": async (c) => {
    await readRequest(c);
    await send(c, answerOf("{}").subarray(0, 10));
  },
  "says a byte now and then": async (c) => {
    await readRequest(c);
    // Until the front has left: it must not wait for it all.
    for (const byte of answerOf("x".repeat(300))) {
      await send(c, Uint8Array.of(byte));
      await sleep(200);
    }
  },
  "does not read a call that its socket has no room for": () =>
    Promise.resolve(),
};

for (const [what, act] of Object.entries(SILENT)) {
  Deno.test(`a coild that ${what} is waited for, and no whole program starts`, async () => {
    await using site = await Site.make({ patienceS: 1 });
    using listener = site.listen();
    const stdin = JSON.stringify({ padding: "x".repeat(240_000) });
    // A UNIX socket keeps some 200 KiB; with the smallest buffers of the sender, less.
    const called = site.call({ env: CALL, stdin });
    using connection = await listener.accept();
    const acted = awaitedLater(
      act(connection).catch((error) => {
        if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
      }),
    );
    const { code, stdout } = await called;
    await acted;
    const { code: reason, msg, details } = JSON.parse(stdout);
    assert.deepEqual([code, reason, msg], [
      1,
      11,
      "coil: coild does not answer",
    ]);
    assert.equal(
      details,
      "no answer for 1 s; look at the coild pod of this node",
    );
  });
}

Deno.test("where nobody is at the socket the whole program gets the call", async () => {
  await using site = await Site.make();
  const { code, stdout } = await site.call({ env: CALL, stdin: "{}" });
  assert.equal(code, 7);
  assert.equal(stdout, `program 0::ADD::${await digestLine("{}")}\n`);
});

const LARGE = "0123456789".repeat(100_000);

for (
  const [what, input, says] of [
    ["no command", { env: { OTHER: "x" }, stdin: "{}" }, "0:::x"],
    ["an empty command", { env: { CNI_COMMAND: "" } }, "0:::"],
    [
      "VERSION",
      { env: { CNI_COMMAND: "VERSION" }, stdin: "{}" },
      "0::VERSION:",
    ],
    ["arguments", { env: CALL, args: ["ipam", "show"] }, "2:ipam show:ADD:"],
    ["variables of 200 KB", {
      env: { ...CALL, CNI_A: "a".repeat(100_000), CNI_B: "b".repeat(100_000) },
      stdin: "{}",
    }, "0::ADD:"],
    ["a configuration larger than its buffer", {
      env: CALL,
      stdin: LARGE,
    }, "0::ADD:"],
  ] as const
) {
  Deno.test(`${what}: the front asks nobody, the whole program gets the call`, async () => {
    await using site = await Site.make();
    let asked = 0;
    const listener = site.listen();
    const accepting = (async () => {
      for await (const connection of listener) {
        asked++;
        connection.close();
      }
    })();
    const { code, stdout } = await site.call(input);
    listener.close();
    await accepting;
    assert.equal(asked, 0);
    assert.equal(code, 7);
    const digest = await digestLine("stdin" in input ? input.stdin : "");
    assert.equal(stdout, `program ${says}:${digest}\n`);
  });
}

/** Runs the front from a shell, which can close and mix up its descriptors. */
async function shell(
  site: Site,
  script: string,
): Promise<{ readonly code: number; readonly stdout: string }> {
  const { code, stdout } = await new Deno.Command("bash", {
    args: ["-c", script, "bash", site.coil],
    env: CALL,
  }).output();
  return { code, stdout: new TextDecoder().decode(stdout) };
}

Deno.test("a front whose stdin is closed leaves the call to the whole program at once", async () => {
  await using site = await Site.make();
  const served = awaitedLater(site.serveOne((c) => send(c, answerOf("{}"))));
  const { code, stdout } = await shell(site, '"$1" <&-');
  assert.equal(code, 7);
  assert.match(stdout, /^program 0::ADD:/);
  // Nobody came; now somebody does, so that the server ends.
  await site.call({ env: CALL, stdin: "{}" });
  await served;
});

Deno.test("a front whose stdout is closed asks nobody", async () => {
  await using site = await Site.make();
  let asked = 0;
  const listener = site.listen();
  const accepting = (async () => {
    for await (const connection of listener) {
      asked++;
      connection.close();
    }
  })();
  const { code } = await shell(site, 'echo "{}" | "$1" >&-');
  listener.close();
  await accepting;
  assert.equal(asked, 0);
  assert.equal(code, 7);
});

Deno.test("input that comes late, to a front whose stdin is non-blocking, arrives whole", async () => {
  await using site = await Site.make();
  const served = awaitedLater(site.serveOne((c) => send(c, answerOf("{}"))));
  // perl sets O_NONBLOCK on what becomes the front's stdin.
  const { code } = await shell(
    site,
    `(printf '{"a":'; sleep 0.3; printf '1}') | perl -MFcntl -e '
      fcntl(STDIN, F_SETFL, fcntl(STDIN, F_GETFL, 0) | O_NONBLOCK);
      exec @ARGV' "$1"`,
  );
  assert.equal(code, 0);
  const text = new TextDecoder().decode(await served);
  assert.ok(text.endsWith('\0{"a":1}'), text);
});

Deno.test("an answer arrives whole where stdout is non-blocking and read late", async () => {
  await using site = await Site.make();
  const answer = "x".repeat(200_000);
  const served = awaitedLater(site.serveOne((c) => send(c, answerOf(answer))));
  // perl sets O_NONBLOCK on what becomes the front's stdout, a pipe of 64 KiB.
  const { stdout } = await shell(
    site,
    `(echo "{}" | perl -MFcntl -e '
      fcntl(STDOUT, F_SETFL, fcntl(STDOUT, F_GETFL, 0) | O_NONBLOCK);
      exec @ARGV' "$1"; echo " $?") | (sleep 0.3; cat)`,
  );
  await served;
  assert.ok(stdout === `${answer} 0\n`, `${stdout.length} bytes`);
});

Deno.test("a front that cannot keep its input says so, and why", async () => {
  await using site = await Site.make();
  // Only three descriptors: none is left for memfd_create, EMFILE is 24.
  const { code, stdout } = await shell(
    site,
    'echo "{}" | (ulimit -n 3; exec "$1")',
  );
  assert.equal(code, 1);
  const { msg, details } = JSON.parse(stdout);
  assert.equal(msg, "coil: cannot hand its input over");
  assert.match(details, /^error 24 of /);
});

Deno.test("a file that was replaced while its front waited goes on as the whole program", async () => {
  await using site = await Site.make();
  const served = awaitedLater(site.serveOne(async () => {
    await Deno.writeTextFile(`${site.directory}/bin/new`, RECORDER);
    await Deno.rename(`${site.directory}/bin/new`, site.coil);
  }));
  const { code, stdout } = await site.call({ env: CALL, stdin: "{}" });
  await served;
  assert.equal(code, 7, stdout);
});

Deno.test("a file with a front can be called by a symbolic link of any name", async () => {
  await using site = await Site.make();
  const link = `${site.directory}/link`;
  await Deno.symlink(site.coil, link);
  const { code } = await runFile(link, { env: CALL, stdin: "{}" });
  assert.equal(code, 7);
});
