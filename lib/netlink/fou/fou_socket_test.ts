import assert from "node:assert/strict";
import type { Message } from "../message/message_reader.ts";
import {
  type FouPort,
  FouSocket,
  FouUnsupportedError,
  NetlinkError,
} from "../mod.ts";
import {
  acknowledge,
  type Answer,
  AnsweringTransport,
  DONE,
  hex,
  unhex,
} from "../testing.ts";

const IPV4: FouPort = { family: "ipv4", port: 5555, protocol: 4 };
const IPV6: FouPort = { family: "ipv6", port: 5555, protocol: 41 };

// Recorded of ip (iproute2 6.1.0) and Linux 6.12 with
// `strace -e trace=sendmsg,sendto,recvmsg -xx -s 8192 ip fou …`.

/** The family that the kernel had given the number 0x23. */
const FOU = 0x23;
const LOOKUP = "03 00 00 00 08 00 02 00 66 6f 75 00";
const FOUND =
  "01 02 00 00 08 00 02 00 66 6f 75 00 06 00 01 00 23 00 00 00 08 00 03 00 01 00 00 00 08 00 04 00 00 00 00 00 08 00 05 00 0b 00 00 00";
/** `ip fou add port 5555 ipproto 4`, `… ipproto 41 -6`: in the order of ours. */
const ADD4 =
  "01 01 00 00 06 00 01 00 15 b3 00 00 05 00 02 00 02 00 00 00 05 00 03 00 04 00 00 00 05 00 04 00 01 00 00 00";
const ADD6 =
  "01 01 00 00 06 00 01 00 15 b3 00 00 05 00 02 00 0a 00 00 00 05 00 03 00 29 00 00 00 05 00 04 00 01 00 00 00";
/** `ip fou show`: the request and the two ports. */
const GET = "03 01 00 00";
const TOLD: readonly string[] = [
  "03 01 00 00 05 00 02 00 0a 00 00 00 06 00 01 00 15 b3 00 00 06 00 0a 00 00 00 00 00 05 00 03 00 29 00 00 00 05 00 04 00 01 00 00 00 08 00 0b 00 00 00 00 00 14 00 07 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 14 00 09 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
  "03 01 00 00 05 00 02 00 02 00 00 00 06 00 01 00 15 b3 00 00 06 00 0a 00 00 00 00 00 05 00 03 00 04 00 00 00 05 00 04 00 01 00 00 00 08 00 0b 00 00 00 00 00 08 00 06 00 00 00 00 00 08 00 08 00 00 00 00 00",
];

/** A kernel with FoU that answers what it is asked with `answer`. */
function kernel(
  answer: (request: Message) => readonly Answer[],
): AnsweringTransport {
  return new AnsweringTransport((request) =>
    request.type === FOU ? answer(request) : [
      { type: 16, payload: unhex(FOUND) },
      acknowledge(request),
    ]
  );
}

function sent(transport: AnsweringTransport): [number, string][] {
  return transport.requests.map(({ type, payload }) => [
    type,
    hex(payload.bytes),
  ]);
}

Deno.test("add() and delete() send what ip does, and look the family up once", async () => {
  const transport = kernel((request) => [acknowledge(request)]);
  using socket = FouSocket.over(transport);
  await socket.add(IPV4);
  await socket.add(IPV6);
  await socket.delete(IPV6);
  assert.deepEqual(sent(transport), [
    [16, LOOKUP],
    [FOU, ADD4],
    [FOU, ADD6],
    [FOU, ADD6.replace("01 01", "02 01")],
  ]);
});

Deno.test("tryAdd() sends all ports at once and tells what became of each", async () => {
  const transport = kernel((request) => [
    acknowledge(request, hex(request.payload.bytes) === ADD6 ? 98 : 0),
  ]);
  using socket = FouSocket.over(transport);
  const outcomes = await socket.tryAdd([IPV4, IPV6]);
  assert.deepEqual(outcomes.map((error) => error?.code), [
    undefined,
    "EADDRINUSE",
  ]);
  assert.deepEqual(sent(transport), [[16, LOOKUP], [FOU, ADD4], [FOU, ADD6]]);
  assert.deepEqual(await socket.tryAdd([]), []);
});

Deno.test("list() reads the ports that the kernel tells", async () => {
  const transport = kernel(() => [
    ...TOLD.map((text) => ({ type: FOU, payload: unhex(text) })),
    DONE,
  ]);
  using socket = FouSocket.over(transport);
  assert.deepEqual(await socket.list(), [IPV6, IPV4]);
  assert.deepEqual(sent(transport), [[16, LOOKUP], [FOU, GET]]);
});

Deno.test("list() leaves out ports of type GUE", async () => {
  const gue = TOLD.map((text) =>
    text.replace("05 00 04 00 01", "05 00 04 00 02")
  );
  const transport = kernel(() => [
    ...gue.map((text) => ({ type: FOU, payload: unhex(text) })),
    DONE,
  ]);
  using socket = FouSocket.over(transport);
  assert.deepEqual(await socket.list(), []);
});

Deno.test("a kernel without FoU is a FouUnsupportedError, asked again each time", async () => {
  const transport = new AnsweringTransport((request) => [
    acknowledge(request, 2), // ENOENT
  ]);
  using socket = FouSocket.over(transport);
  for (const ask of [() => socket.list(), () => socket.add(IPV4)]) {
    await assert.rejects(ask, FouUnsupportedError);
  }
  assert.equal(transport.requests.length, 2);
});

Deno.test("a socket outlives the module: the family gets another number", async () => {
  let number = FOU;
  const transport = new AnsweringTransport((request) => {
    if (request.type === 16) {
      const found = FOUND.replace("23 00", `${number.toString(16)} 00`);
      return [{ type: 16, payload: unhex(found) }, acknowledge(request)];
    }
    if (request.type !== number) return [acknowledge(request, 2)]; // ENOENT
    return [(request.flags & 0x300) === 0 ? acknowledge(request) : DONE];
  });
  using socket = FouSocket.over(transport);
  await socket.add(IPV4);
  number++;
  await socket.add(IPV6);
  number++;
  assert.deepEqual(await socket.list(), []);
  const types = transport.requests.map(({ type }) => type - FOU);
  assert.deepEqual(types.filter((type) => type >= 0), [0, 0, 1, 1, 2]);
});

Deno.test("a number that is another family's by now is found out by any refusal of it", async () => {
  const other = FOU + 1;
  let looks = 0;
  const transport = new AnsweringTransport((request) => {
    if (request.type !== 16) {
      // EOPNOTSUPP, of a family that has no such command.
      return [acknowledge(request, request.type === other ? 0 : 95)];
    }
    const number = (looks++ === 0 ? FOU : other).toString(16);
    return [
      { type: 16, payload: unhex(FOUND.replace("23 00", `${number} 00`)) },
      acknowledge(request),
    ];
  });
  using socket = FouSocket.over(transport);
  await assert.rejects(
    () => socket.add(IPV4),
    (error) => error instanceof NetlinkError && error.code === "EOPNOTSUPP",
  );
  assert.deepEqual(await socket.tryAdd([IPV4, IPV6]), [undefined, undefined]);
  const types = transport.requests.map(({ type }) => type);
  assert.deepEqual(types, [16, FOU, FOU, FOU, 16, other, other]);
});

Deno.test("a refusal by the number that is still right is told after one more look", async () => {
  const transport = kernel((request) => [
    acknowledge(request, hex(request.payload.bytes) === ADD6 ? 98 : 0),
  ]);
  using socket = FouSocket.over(transport);
  await socket.add(IPV4);
  const outcomes = await socket.tryAdd([IPV4, IPV6]);
  assert.deepEqual(outcomes.map((error) => error?.code), [
    undefined,
    "EADDRINUSE",
  ]);
  const types = transport.requests.map(({ type }) => type);
  assert.deepEqual(types, [16, FOU, FOU, FOU, 16]);
});

Deno.test("any other refusal is told as it is", async () => {
  const forbidden = new AnsweringTransport((request) => [
    acknowledge(request, 1), // EPERM
  ]);
  using lookup = FouSocket.over(forbidden);
  await assert.rejects(
    () => lookup.add(IPV4),
    (error) => error instanceof NetlinkError && error.code === "EPERM",
  );
  using taken = FouSocket.over(
    kernel((request) => [acknowledge(request, 98)]), // EADDRINUSE
  );
  await assert.rejects(() => taken.add(IPV4), {
    message: "Cannot add ipv4 FoU port 5555: kernel returned EADDRINUSE",
  });
});

Deno.test("ports and protocols out of range are refused before the kernel is asked", async () => {
  const transport = kernel((request) => [acknowledge(request)]);
  using socket = FouSocket.over(transport);
  const wrong = [{ port: 0 }, { port: 65536 }, { port: 1.5 }, { protocol: 0 }, {
    protocol: 256,
  }];
  for (const part of wrong) {
    await assert.rejects(() => socket.add({ ...IPV4, ...part }), RangeError);
    await assert.rejects(() => socket.delete({ ...IPV4, ...part }), RangeError);
  }
  assert.equal(transport.requests.length, 0);
});

Deno.test("dispose() closes the transport", () => {
  const transport = kernel(() => []);
  const socket = FouSocket.over(transport);
  socket[Symbol.dispose]();
  assert.equal(transport.closed, true);
});
