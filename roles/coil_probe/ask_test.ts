import assert from "node:assert/strict";
import type { Question } from "../../lib/connectivity/mod.ts";
import { openLibc } from "../../lib/linux/mod.ts";
import { ask } from "./ask.ts";
import { addressIn } from "./ask_url.ts";
import { answerTo, encodeQuestion, readAnswer } from "./datagrams.ts";
import { serve, type ServeOptions } from "./serve.ts";

openLibc(); // stays open, so it must not be counted as some test's leak

/** A probe, called "p1", until the end. */
async function probe(options: Pick<ServeOptions, "rate"> = {}) {
  const controller = new AbortController();
  const { signal } = controller;
  const serving = await serve({ ...options, port: 0, name: "p1", signal });
  return {
    ...serving,
    [Symbol.asyncDispose]: async () => {
      controller.abort();
      await serving.finished;
    },
  };
}

/** One question alone; for so long, one that is not answered. */
async function askOne(question: Question, timeoutMs = 300) {
  const [outcome] = await ask({ timeoutMs, questions: [question] });
  return outcome;
}

for (const address of ["127.0.0.1", "::1"]) {
  for (const isLarge of [false, true]) {
    const size = isLarge ? "large" : "small";
    Deno.test(`a probe answers ${size} questions at ${address} with its name and the source`, async () => {
      await using server = await probe();
      const outcomes = await ask({
        timeoutMs: 10_000,
        questions: [
          { kind: "tcp", address, port: server.tcpPort, isLarge },
          { kind: "udp", address, port: server.udpPort, isLarge },
        ],
      });
      const seen = { state: "answered", by: "p1", source: address };
      assert.deepEqual(outcomes, [seen, seen]);
    });
  }
}

Deno.test("ask() says of each destination why there was no answer, in the order of the questions", async () => {
  using silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const address = "127.0.0.1";
  const outcomes = await ask({
    timeoutMs: 2_000,
    questions: [
      { kind: "tcp", address, port: silent.addr.port, isLarge: false },
      { kind: "tcp", address, port: 1, isLarge: false },
      { kind: "udp", address, port: 1, isLarge: false },
      { kind: "connect", address, port: silent.addr.port },
    ],
  });
  const short = outcomes.map((o) => o.state === "failed" ? o.why : o.state);
  assert.deepEqual(short, ["no answer", "refused", "refused", "answered"]);
});

Deno.test("ask() tries again until a destination answers", async () => {
  await using first = await probe();
  const { tcpPort: port } = first;
  await first[Symbol.asyncDispose]();
  const answer = ask({
    timeoutMs: 10_000,
    questions: [{ kind: "connect", address: "127.0.0.1", port }],
  });
  // It has been refused once by then, or will be connected at once.
  assert.equal(
    (await askOne({ kind: "connect", address: "127.0.0.1", port }))?.state,
    "failed",
  );
  using _late = Deno.listen({ hostname: "127.0.0.1", port });
  assert.deepEqual(await answer, [{ state: "answered" }]);
});

Deno.test("ask() reports what it met, not that the last attempt had no time", async () => {
  using free = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = free.addr;
  free.close();
  const tcp = {
    kind: "tcp",
    address: "127.0.0.1",
    port,
    isLarge: false,
  } as const;
  const outcome = askOne(tcp, 2_000);
  assert.equal(
    (await askOne({ kind: "connect", address: "127.0.0.1", port }))?.state,
    "failed",
  );
  // From now on connections are made, and no answer comes.
  using _silent = Deno.listen({ hostname: "127.0.0.1", port });
  const failed = await outcome;
  assert.ok(failed?.state === "failed");
  assert.equal(failed.why, "refused");
});

Deno.test("a large datagram that no answer comes to is reported with its size", async () => {
  const outcome = await askOne({
    kind: "udp",
    address: "127.0.0.1",
    port: 1,
    isLarge: true,
  });
  assert.ok(outcome?.state === "failed");
  // The loopback link has more than an IPv4 packet can have.
  assert.equal(outcome.size, 65_535);
});

Deno.test("a probe answers one address by UDP as often as its rate allows", async () => {
  await using server = await probe({ rate: { burst: 2, perSecond: 1e-6 } });
  const question: Question = {
    kind: "udp",
    address: "127.0.0.1",
    port: server.udpPort,
    isLarge: false,
  };
  const states: (string | undefined)[] = [];
  for (const timeoutMs of [10_000, 10_000, 300]) {
    states.push((await askOne(question, timeoutMs))?.state);
  }
  assert.deepEqual(states, ["answered", "answered", "failed"]);
});

Deno.test("a probe asks an HTTP server which address it sees", async () => {
  await using server = await probe();
  const url = `http://127.0.0.1:${server.tcpPort}/`;
  assert.deepEqual(
    await askOne({ kind: "get", url }, 10_000),
    { state: "answered", source: "127.0.0.1" },
  );
});

Deno.test("a probe takes the address from the start of an answer without an end", async () => {
  const endless = () => {
    const chunk = new TextEncoder().encode("you are 203.0.113.7\n".repeat(100));
    return new ReadableStream({ pull: (stream) => stream.enqueue(chunk) });
  };
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    ({ url }) =>
      new Response(endless(), { status: url.endsWith("/no") ? 503 : 200 }),
  );
  const url = `http://127.0.0.1:${server.addr.port}`;
  assert.deepEqual(
    await askOne({ kind: "get", url }, 10_000),
    { state: "answered", source: "203.0.113.7" },
  );
  const refused = await askOne({ kind: "get", url: `${url}/no` }, 2_000);
  assert.ok(refused?.state === "failed");
  assert.equal(refused.detail, "it answers with status 503");
});

for (
  const [text, address] of [
    ["203.0.113.7\n", "203.0.113.7"],
    ['{"ip":"2001:db8::7"}', "2001:db8::7"],
    ["<p>at 12:30 you are ::ffff:203.0.113.7", "203.0.113.7"],
    ["999.1.1.1", undefined],
  ] as const
) {
  Deno.test(`addressIn(${JSON.stringify(text)}) is ${address}`, () => {
    assert.equal(addressIn(text), address);
  });
}

Deno.test("an answer is shorter than the question, and never answered itself", () => {
  const seen = { by: "p".repeat(63), source: "2001:db8:1:2:3:4:5:6" };
  const question = encodeQuestion("0123456789abcdef", 512);
  const answer = answerTo(question, seen);
  assert.ok(answer !== undefined && answer.length < question.length);
  assert.deepEqual(readAnswer(answer, "0123456789abcdef"), seen);
  assert.equal(readAnswer(answer, "0123456789abcdee"), undefined);
  const long = new Uint8Array(512);
  long.set(answer);
  assert.equal(answerTo(long, seen), undefined);
  assert.equal(answerTo(question.subarray(0, 511), seen), undefined);
});
