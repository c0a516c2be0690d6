import assert from "node:assert/strict";
import type { Clock } from "../../lib/async/mod.ts";
import { FakeClock, untilPasses } from "../../lib/async/testing.ts";
import { createHash } from "node:crypto";
import { run } from "../../deploy/host/mod.ts";
import {
  type EnvtestArchive,
  envtestArchive,
  EnvtestError,
  fetchEnvtest,
  officialPrograms,
} from "./envtest.ts";

/** Bounds what a test waits for; nothing is measured. */
const TIMEOUTS = { silenceMs: 60_000, totalMs: 60_000 };
/** For servers that are silent. */
const SILENT = { silenceMs: 500, totalMs: 60_000 };

/** An archive as controller-tools makes them, with scripts in place of the programs. */
async function makeArchive(
  programs: readonly string[] = ["etcd", "kube-apiserver", "kubectl"],
): Promise<Uint8Array<ArrayBuffer>> {
  const dir = await Deno.makeTempDir();
  try {
    const inner = `${dir}/controller-tools/envtest`;
    await Deno.mkdir(inner, { recursive: true });
    for (const name of programs) {
      await Deno.writeTextFile(`${inner}/${name}`, `#!/bin/sh\necho ${name}\n`);
      await Deno.chmod(`${inner}/${name}`, 0o755);
    }
    await run("tar", ["-czf", `${dir}/a`, "-C", dir, "controller-tools"]);
    return await Deno.readFile(`${dir}/a`);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

function sha512(bytes: Uint8Array): string {
  return createHash("sha512").update(bytes).digest("hex");
}

function namesIn(directory: string): string[] {
  return [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
}

/** A server that answers so, and a directory to unpack into. */
async function lab(answer: () => Response) {
  const dir = await Deno.makeTempDir();
  const requests: string[] = [];
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    (request) => {
      requests.push(new URL(request.url).pathname);
      return answer();
    },
  );
  const url = `http://127.0.0.1:${server.addr.port}/envtest.tar.gz`;
  const directory = `${dir}/bin`;
  return {
    dir,
    url,
    requests,
    directory,
    fetch: (hash: EnvtestArchive["sha512"], timeouts = TIMEOUTS) =>
      fetchEnvtest(directory, { archive: { url, sha512: hash }, timeouts }),
    /** Fails for the reason, and leaves nothing behind. */
    async refuses(
      hash: EnvtestArchive["sha512"],
      reason: RegExp,
      timeouts = TIMEOUTS,
    ) {
      await assert.rejects(this.fetch(hash, timeouts), (error) => {
        assert.ok(error instanceof EnvtestError, String(error));
        assert.match(error.message, reason);
        return true;
      });
      assert.deepEqual(namesIn(dir), []);
    },
    async [Symbol.asyncDispose]() {
      await server.shutdown();
      await Deno.remove(dir, { recursive: true });
    },
  };
}

Deno.test("fetchEnvtest() unpacks the programs of an archive whose hash is right", async () => {
  const bytes = await makeArchive();
  await using server = await lab(() => new Response(bytes));
  await server.fetch(sha512(bytes));
  assert.deepEqual(
    namesIn(server.directory),
    ["etcd", "kube-apiserver", "kubectl"],
  );
  assert.equal(await run(`${server.directory}/etcd`, []), "etcd\n");
});

Deno.test("fetchEnvtest() refuses an archive with another hash", async () => {
  const bytes = await makeArchive();
  await using server = await lab(() => new Response(bytes));
  await server.refuses(sha512(new Uint8Array(1)), /has SHA-512 .* not /);
});

Deno.test("fetchEnvtest() asks nobody when no hash is known", async () => {
  await using server = await lab(() => new Response("anything"));
  await server.refuses(undefined, /no hash is known for "http/);
  assert.deepEqual(server.requests, []);
});

Deno.test("fetchEnvtest() refuses a truncated archive", async () => {
  const bytes = await makeArchive();
  const half = bytes.subarray(0, bytes.length / 2);
  await using server = await lab(() => new Response(half));
  await server.refuses(sha512(bytes), /has SHA-512/);
});

Deno.test("fetchEnvtest() refuses an archive whose connection ends early", async () => {
  const dir = await Deno.makeTempDir();
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const served = (async () => {
    using connection = await listener.accept();
    await connection.read(new Uint8Array(4096));
    await connection.write(
      new TextEncoder().encode(
        "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf",
      ),
    );
  })();
  const archive = {
    url: `http://127.0.0.1:${listener.addr.port}/`,
    sha512: sha512(new TextEncoder().encode("half")),
  };
  await assert.rejects(
    fetchEnvtest(`${dir}/bin`, { archive, timeouts: TIMEOUTS }),
    /cannot be read: /,
  );
  await served;
  assert.deepEqual(namesIn(dir), []);
  await Deno.remove(dir);
});

Deno.test("fetchEnvtest() refuses an archive without one of the programs", async () => {
  const bytes = await makeArchive(["etcd", "kubectl"]);
  await using server = await lab(() => new Response(bytes));
  await server.refuses(sha512(bytes), /cannot be unpacked: .*kube-apiserver/s);
});

Deno.test("fetchEnvtest() refuses what is not an archive, with any hash", async () => {
  const bytes = new TextEncoder().encode("<html>Welcome to our network</html>");
  await using server = await lab(() => new Response(bytes));
  await server.refuses(sha512(bytes), /cannot be unpacked/);
});

Deno.test("fetchEnvtest() says the status of a server that has no archive", async () => {
  await using server = await lab(() =>
    new Response("no such file", { status: 404 })
  );
  await server.refuses("00", /answered status 404/);
});

Deno.test("fetchEnvtest() gives up a server that is silent in the middle of the archive", async () => {
  const bytes = await makeArchive();
  await using server = await lab(() =>
    new Response(
      new ReadableStream({
        start: (controller) => controller.enqueue(bytes.subarray(0, 100)),
      }),
    )
  );
  await server.refuses(sha512(bytes), /no data for 500 ms/, SILENT);
});

Deno.test("fetchEnvtest() gives up a server that takes connections and never answers", async () => {
  const dir = await Deno.makeTempDir();
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const accepted = listener.accept();
  const archive = {
    url: `http://127.0.0.1:${listener.addr.port}/`,
    sha512: "00",
  };
  await assert.rejects(
    fetchEnvtest(`${dir}/bin`, { archive, timeouts: SILENT }),
    /no data for 500 ms/,
  );
  (await accepted).close();
  assert.deepEqual(namesIn(dir), []);
  await Deno.remove(dir);
});

Deno.test("fetchEnvtest() gives up a server that sends for ever", async () => {
  await using server = await lab(() => {
    let timer: ReturnType<typeof setInterval>;
    return new Response(
      new ReadableStream({
        start(controller) {
          timer = setInterval(() => controller.enqueue(new Uint8Array(9)), 50);
        },
        cancel: () => clearInterval(timer),
      }),
    );
  });
  const timeouts = { silenceMs: 60_000, totalMs: 500 };
  await server.refuses("00", /not complete after 500 ms/, timeouts);
});

Deno.test("fetchEnvtest() waits for a server that is slow but not silent", async () => {
  const bytes = await makeArchive();
  const size = Math.ceil(bytes.length / 8);
  const clock = new FakeClock();
  let timers = 0;
  const counting: Clock = {
    nowMs: () => clock.nowMs(),
    after(ms, callback) {
      timers++;
      return clock.after(ms, callback);
    },
  };
  await using server = await lab(() => {
    let pieces = 0;
    return new Response(
      new ReadableStream({
        async pull(controller) {
          // A timer for all of it, one for the answer, and one after each piece.
          await untilPasses(() => assert.ok(timers >= 2 + pieces));
          await clock.advance(900);
          const sent = pieces++ * size;
          controller.enqueue(bytes.subarray(sent, sent + size));
          if (sent + size >= bytes.length) controller.close();
        },
      }),
    );
  });
  // Shorter than all of it together, and longer than any pause.
  const timeouts = { silenceMs: 1_000, totalMs: 60_000 };
  const archive = { url: server.url, sha512: sha512(bytes) };
  const options = { archive, timeouts, clock: counting };
  await fetchEnvtest(server.directory, options);
  assert.ok(clock.nowMs() > timeouts.silenceMs);
});

Deno.test("fetchEnvtest() says that nobody listens", async () => {
  const dir = await Deno.makeTempDir();
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const url = `http://127.0.0.1:${listener.addr.port}/`;
  listener.close();
  await assert.rejects(
    fetchEnvtest(`${dir}/bin`, { archive: { url, sha512: "00" } }),
    /cannot be read: .*refused/i,
  );
  await Deno.remove(dir, { recursive: true });
});

Deno.test("officialPrograms() downloads once, and says why where it cannot", async () => {
  const bytes = await makeArchive();
  await using server = await lab(() => new Response(bytes));
  const ask = async (hash: EnvtestArchive["sha512"]) => {
    const notices: string[] = [];
    const found = await officialPrograms(server.dir, {
      archive: { url: server.url, sha512: hash },
      log: () => {},
      notice: (line) => void notices.push(line),
      timeouts: TIMEOUTS,
    });
    return { found, notices };
  };
  const first = await ask(sha512(bytes));
  assert.deepEqual(namesIn(first.found ?? ""), [
    ...["etcd", "kube-apiserver", "kubectl"],
  ]);
  assert.deepEqual(await ask(sha512(bytes)), first);
  assert.equal(server.requests.length, 1);
  const reasons = { wrong: /has SHA-512/, missing: /no hash is known/ };
  for (const [kind, reason] of Object.entries(reasons)) {
    const hash = kind === "wrong" ? sha512(new Uint8Array(1)) : undefined;
    const { found, notices } = await ask(hash);
    assert.equal(found, undefined);
    assert.match(notices.join(), reason);
  }
});

Deno.test("an archive is pinned for this machine", () => {
  const { url, sha512 } = envtestArchive();
  assert.match(url, /^https:\/\/github\.com\/kubernetes-sigs\//);
  assert.match(sha512 ?? "", /^[0-9a-f]{128}$/);
});
