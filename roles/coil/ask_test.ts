import assert from "node:assert/strict";
import { decodeRequest, requestSize } from "../../lib/cnirpc/plugin/mod.ts";
import { NoAnswerError } from "../../lib/plugin/mod.ts";
import { askCoild } from "./ask.ts";

const ENV = { CNI_COMMAND: "ADD", CNI_IFNAME: "eth0", PATH: "/bin" };
const STDIN = new TextEncoder().encode('{"name": "n"}');

/** Asks somebody who does with the connection what `serve` does. */
async function ask(
  serve: (connection: Deno.UnixConn) => Promise<void>,
  patienceMs?: number,
): Promise<{ readonly socketPath: string; readonly outcome: unknown }> {
  const directory = await Deno.makeTempDir();
  const socketPath = `${directory}/coild.sock`;
  using listener = Deno.listen({
    transport: "unix",
    path: `${socketPath}.cni`,
  });
  const served = listener.accept().then(async (connection) => {
    using _ = connection;
    await serve(connection);
  });
  const question = { socketPath, env: ENV, stdin: STDIN };
  const outcome = await askCoild(
    patienceMs === undefined ? question : { ...question, patienceMs },
  ).catch((error: unknown) => error);
  await served;
  await Deno.remove(directory, { recursive: true });
  return { socketPath, outcome };
}

async function readRequest(connection: Deno.UnixConn) {
  let bytes = new Uint8Array();
  const buffer = new Uint8Array(4096);
  while (requestSize(bytes) !== bytes.length) {
    const count = await connection.read(buffer);
    assert.ok(count !== null);
    bytes = new Uint8Array([...bytes, ...buffer.subarray(0, count)]);
  }
  return decodeRequest(bytes);
}

/** An answer, whose parts may be wrong. */
function answer(text: string, { exitCode = 0, more = 0 } = {}): Uint8Array {
  const encoder = new TextEncoder();
  const numbers = new Uint32Array([exitCode, text.length + more]);
  return new Uint8Array([
    ...encoder.encode("COILCNI1"),
    ...new Uint8Array(numbers.buffer),
    ...encoder.encode(text),
  ]);
}

Deno.test("askCoild() hands over CNI's variables, stdin and the socket, and gives the answer", async () => {
  const seen: unknown[] = [];
  const { outcome, socketPath } = await ask(async (connection) => {
    const { env, stdin } = await readRequest(connection);
    seen.push(Object.fromEntries(env), new TextDecoder().decode(stdin));
    await connection.write(answer("{}", { exitCode: 1 }));
  });
  assert.deepEqual(outcome, { exitCode: 1, stdout: "{}" });
  assert.deepEqual(seen, [
    { CNI_COMMAND: "ADD", CNI_IFNAME: "eth0", COIL_SOCKET: socketPath },
    '{"name": "n"}',
  ]);
});

for (
  const [what, bytes] of [
    ["nothing", new Uint8Array()],
    ["half", answer("{}").subarray(0, 17)],
    ["too much", answer("{}", { more: -1 })],
    ["garbage", new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n\r\n")],
  ] as const
) {
  Deno.test(`askCoild() says that coild did not answer when ${what} comes`, async () => {
    const { outcome, socketPath } = await ask(async (connection) => {
      await readRequest(connection);
      await connection.write(bytes);
    });
    assert.ok(outcome instanceof NoAnswerError);
    assert.equal(outcome.message, "coild did not answer");
    assert.ok(outcome.details.startsWith(`socket "${socketPath}": Cannot`));
  });
}

Deno.test("askCoild() does not keep an answer without an end", async () => {
  const { outcome } = await ask(async (connection) => {
    await readRequest(connection);
    const bytes = new Uint8Array(1 << 20);
    try {
      for (let sent = 0; sent < 64 << 20;) {
        sent += await connection.write(bytes);
      }
    } catch (error) {
      if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
    }
  });
  assert.ok(outcome instanceof NoAnswerError);
  assert.match(outcome.details, /Cannot read the answer: more than 16 MiB/);
});

Deno.test("askCoild() does not wait for ever", async () => {
  const { outcome } = await ask(async (connection) => {
    const buffer = new Uint8Array(4096);
    while (await connection.read(buffer) !== null);
  }, 50);
  assert.ok(outcome instanceof NoAnswerError);
  assert.equal(outcome.message, "No answer within 50 ms");
});

Deno.test("askCoild() leaves a coild that serves only gRPC, and says when none runs", async () => {
  const directory = await Deno.makeTempDir();
  const path = `${directory}/coild.sock`;
  const asking = () => askCoild({ socketPath: path, env: ENV, stdin: STDIN });
  await assert.rejects(asking(), (error) => {
    assert.ok(error instanceof NoAnswerError);
    assert.equal(
      error.message,
      "coild is not running on this node or still starting",
    );
    assert.equal(
      error.details,
      `socket "${path}": No such file or directory (os error 2); check the coild pod of this node`,
    );
    return true;
  });
  using _grpc = Deno.listen({ transport: "unix", path });
  assert.equal(await asking(), undefined);
  // It serves gRPC, too, while more calls wait than its backlog has room for.
  using filled = new DisposableStack();
  await assert.rejects(async () => {
    for (;;) filled.use(await Deno.connect({ transport: "unix", path }));
  }, Deno.errors.WouldBlock);
  assert.equal(await asking(), undefined);
  await Deno.remove(directory, { recursive: true });
});
