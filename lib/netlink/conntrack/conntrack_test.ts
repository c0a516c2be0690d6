import assert from "node:assert/strict";
import fc from "fast-check";
import { Address, type Family } from "../../inet/mod.ts";
import { type Message, Payload } from "../message/message_reader.ts";
import { MessageWriter } from "../message/message_writer.ts";
import {
  CONNTRACK_STATUS,
  type ConntrackFlow,
  ConntrackSocket,
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
import { copyOf, listFlows } from "../../../tests/lab/flows.ts";
import { parseFlow } from "./flow_view.ts";

// Recorded of Linux 6.18 with NETLINK_TRACE=1, and what /proc/net/nf_conntrack
// said of the same connection at that moment.

/** IPCTNL_MSG_CT_NEW, _GET, _DELETE and _GET_STATS. */
const [NEW, GET, DELETE, GET_STATS] = [0x100, 0x101, 0x102, 0x105];

/**
 * `tcp 6 431999 ESTABLISHED src=127.0.0.1 dst=127.0.0.9 sport=53564 dport=8080
 * src=127.0.0.1 dst=127.0.0.5 sport=8080 dport=53564 [ASSURED] mark=0`
 */
const TCP = unhex(`
  02 00 00 00 34 00 01 80 14 00 01 80 08 00 01 00
  7f 00 00 01 08 00 02 00 7f 00 00 09 1c 00 02 80
  05 00 01 00 06 00 00 00 06 00 02 00 d1 3c 00 00
  06 00 03 00 1f 90 00 00 34 00 02 80 14 00 01 80
  08 00 01 00 7f 00 00 01 08 00 02 00 7f 00 00 05
  1c 00 02 80 05 00 01 00 06 00 00 00 06 00 02 00
  1f 90 00 00 06 00 03 00 d1 3c 00 00 08 00 03 00
  00 00 01 be 08 00 08 00 00 00 00 00 08 00 0c 00
  30 8d d0 00 08 00 0b 00 00 00 00 01 08 00 07 00
  00 06 97 7f 30 00 04 80 2c 00 01 80 05 00 01 00
  03 00 00 00 05 00 02 00 0a 00 00 00 05 00 03 00
  0a 00 00 00 06 00 04 00 23 00 00 00 06 00 05 00
  23 00 00 00`);

/** `icmp 1 29 src=127.0.0.1 dst=127.0.0.1 type=8 code=0 id=19715 src=127.0.0.1 dst=127.0.0.1 type=0 code=0 id=19715 mark=0` */
const ICMP = unhex(`
  02 00 00 00 3c 00 01 80 14 00 01 80 08 00 01 00
  7f 00 00 01 08 00 02 00 7f 00 00 01 24 00 02 80
  05 00 01 00 01 00 00 00 06 00 04 00 4d 03 00 00
  05 00 05 00 08 00 00 00 05 00 06 00 00 00 00 00
  3c 00 02 80 14 00 01 80 08 00 01 00 7f 00 00 01
  08 00 02 00 7f 00 00 01 24 00 02 80 05 00 01 00
  01 00 00 00 06 00 04 00 4d 03 00 00 05 00 05 00
  00 00 00 00 05 00 06 00 00 00 00 00 08 00 03 00
  00 00 01 8a 08 00 08 00 00 00 00 00 08 00 0c 00
  c3 81 ca 3b 08 00 0b 00 00 00 00 01 08 00 07 00
  00 00 00 1d`);

/** 2 connections of 262144. */
const STATS = unhex(
  "00 00 00 00 08 00 01 00 00 00 00 02 08 00 02 00 00 04 00 00",
);

const HOST = Address.parse("127.0.0.1");

const TCP_FLOW: ConntrackFlow = {
  family: "ipv4",
  protocol: 6,
  status: 0x1be,
  originalSource: HOST,
  originalDestination: Address.parse("127.0.0.9"),
  originalSourcePort: 53564,
  originalDestinationPort: 8080,
  replySource: HOST,
  replyDestination: Address.parse("127.0.0.5"),
  replySourcePort: 8080,
  replyDestinationPort: 53564,
  timeoutSeconds: 431999,
  mark: 0,
  tcpState: "ESTABLISHED",
};

const ICMP_FLOW: ConntrackFlow = {
  family: "ipv4",
  protocol: 1,
  status: 0x18a,
  originalSource: HOST,
  originalDestination: HOST,
  originalSourcePort: 19715,
  originalDestinationPort: 19715,
  replySource: HOST,
  replyDestination: HOST,
  replySourcePort: 19715,
  replyDestinationPort: 19715,
  timeoutSeconds: 29,
  mark: 0,
  tcpState: undefined,
};

function message(bytes: Uint8Array): Message {
  const payload = new Payload(bytes);
  return { type: NEW, flags: 2, sequence: 1, portId: 1, payload };
}

function parsed(bytes: Uint8Array): ConntrackFlow | undefined {
  const flow = parseFlow(message(bytes));
  return flow && copyOf(flow);
}

Deno.test("parseFlow() reads what the kernel tells of a connection", () => {
  assert.deepEqual(parsed(TCP), TCP_FLOW);
  assert.deepEqual(parsed(ICMP), ICMP_FLOW);
});

Deno.test("the bits of a status mean what /proc shows", () => {
  const { seenReply, assured, confirmed, srcNat, dstNat } = CONNTRACK_STATUS;
  const all = seenReply | assured | confirmed | srcNat | dstNat;
  assert.equal(TCP_FLOW.status & all, all); // [ASSURED], both ends translated
  assert.equal(ICMP_FLOW.status & all, seenReply | confirmed);
});

const NUMBER = fc.integer({ min: 0, max: 0xffffffff });
const PORT = fc.integer({ min: 0, max: 0xffff });

/** One direction as ctnetlink writes it. */
function writeTuple(
  writer: MessageWriter,
  type: number,
  tuple: { ends: [Address, Address]; ports: [number, number] },
): void {
  const [source, destination] = tuple.ends;
  const first = source.family === "ipv4" ? 1 : 3;
  writer.nest(type, () => {
    writer.nest(1, () => {
      writer.attributeBytes(first, source.toBytes());
      writer.attributeBytes(first + 1, destination.toBytes());
    });
    writer.nest(2, () => {
      writer.attributeU8(1, 17);
      writer.attributeU16Be(2, tuple.ports[0]);
      writer.attributeU16Be(3, tuple.ports[1]);
    });
  });
}

function arbitraryTuple(family: Family) {
  const bits = family === "ipv4" ? 32n : 128n;
  const address = fc.bigInt({ min: 0n, max: (1n << bits) - 1n })
    .map((value) => Address.of(family, value));
  return fc.record({
    ends: fc.tuple(address, address),
    ports: fc.tuple(PORT, PORT),
  });
}

Deno.test("parseFlow() reads any connections of both families", () => {
  const cases = fc.constantFrom("ipv4" as const, "ipv6" as const).chain(
    (family) =>
      fc.record({
        family: fc.constant(family),
        original: arbitraryTuple(family),
        reply: arbitraryTuple(family),
        numbers: fc.tuple(NUMBER, NUMBER, NUMBER),
      }),
  );
  fc.assert(fc.property(cases, ({ family, original, reply, numbers }) => {
    const writer = new MessageWriter();
    writer.u32(family === "ipv4" ? 2 : 10);
    writeTuple(writer, 1, original);
    writeTuple(writer, 2, reply);
    const [status, timeoutSeconds, mark] = numbers;
    writer.attributeU32Be(3, status);
    writer.attributeU32Be(7, timeoutSeconds);
    writer.attributeU32Be(8, mark);
    assert.deepEqual(parsed(writer.bytes()), {
      family,
      protocol: 17,
      status,
      originalSource: original.ends[0],
      originalDestination: original.ends[1],
      originalSourcePort: original.ports[0],
      originalDestinationPort: original.ports[1],
      replySource: reply.ends[0],
      replyDestination: reply.ends[1],
      replySourcePort: reply.ports[0],
      replyDestinationPort: reply.ports[1],
      timeoutSeconds,
      mark,
      tcpState: undefined,
    });
  }));
});

Deno.test("parseFlow() either reads hostile bytes or throws a SyntaxError", () => {
  const changed = fc.tuple(
    fc.constantFrom(TCP, ICMP),
    fc.nat(TCP.byteLength),
    fc.nat(255),
    fc.nat(TCP.byteLength),
  ).map(([bytes, at, value, length]) => {
    const copy = bytes.slice(0, length);
    if (at < copy.byteLength) copy[at] = value;
    return copy;
  });
  fc.assert(
    fc.property(fc.oneof(changed, fc.uint8Array()), (bytes) => {
      try {
        parsed(bytes);
      } catch (error) {
        assert(error instanceof SyntaxError, String(error));
      }
    }),
    { numRuns: 2000 },
  );
});

Deno.test("parseFlow() leaves out what is not of IP", () => {
  assert.equal(parseFlow(message(Uint8Array.of(7, 0, 0, 0))), undefined);
});

/** A kernel with two connections. */
function kernel(
  onDelete: (request: Message) => Answer = acknowledge,
): AnsweringTransport {
  return new AnsweringTransport((request) => {
    if (request.type === GET) {
      const flows = [TCP, ICMP].map((payload) => ({ type: NEW, payload }));
      return [...flows, DONE];
    }
    if (request.type === GET_STATS) {
      return [{ type: GET_STATS, payload: STATS }, acknowledge(request)];
    }
    return [onDelete(request)];
  });
}

Deno.test("visit() shows every connection, of one family or all", async () => {
  const transport = kernel();
  using socket = ConntrackSocket.over(transport);
  assert.deepEqual(await listFlows(socket), [TCP_FLOW, ICMP_FLOW]);
  const seen: number[] = [];
  await socket.visit(({ protocol }) => seen.push(protocol), {
    family: "ipv6",
  });
  assert.deepEqual(seen, [6, 1]);
  assert.deepEqual(
    transport.requests.map(({ type, flags, payload }) => [
      type,
      flags,
      hex(payload.bytes),
    ]),
    [[GET, 0x301, "00 00 00 00"], [GET, 0x301, "0a 00 00 00"]],
  );
});

Deno.test("visit() asks for the connections of one end", async () => {
  const transport = kernel();
  using socket = ConntrackSocket.over(transport);
  const address = Address.parse("10.1.1.2");
  await listFlows(socket, { end: { address, role: "opens" } });
  await listFlows(socket, {
    end: { address: Address.parse("10.1.1.3"), role: "answers" },
  });
  await listFlows(socket, {
    end: { address: Address.parse("fd01::2"), role: "answers" },
  });
  assert.deepEqual(
    transport.requests.map(({ payload }) => hex(payload.bytes)),
    [
      "02 00 00 00 10 00 01 80 0c 00 01 80 08 00 01 00 0a 01 01 02 0c 00 19 80 08 00 01 00 01 00 00 00",
      "02 00 00 00 10 00 02 80 0c 00 01 80 08 00 01 00 0a 01 01 03 0c 00 19 80 08 00 02 00 01 00 00 00",
      "0a 00 00 00",
    ],
    "the kernel's comparison of IPv6 addresses is wrong",
  );
});

Deno.test("count() reads how many there are and may be", async () => {
  using socket = ConntrackSocket.over(kernel());
  assert.deepEqual(await socket.count(), { entries: 2, max: 262144 });
});

Deno.test("deleteWhere() names each connection by its tuple and id", async () => {
  const transport = kernel();
  using socket = ConntrackSocket.over(transport);
  const deleted = await socket.deleteWhere(({ protocol }) => protocol === 6);
  assert.equal(deleted, 1);
  const request = transport.requests[1];
  assert.equal(request?.type, DELETE);
  const attributes = request?.payload.attributes(4);
  assert.equal(request?.payload.u8(0), 2);
  assert.deepEqual(attributes?.types(), [1, 12]);
  // The tuple as the kernel told it, the id as it told it.
  assert.equal(
    hex(attributes?.bytes(1) ?? new Uint8Array()),
    hex(TCP.subarray(8, 4 + 0x34)),
  );
  assert.equal(attributes?.u32Be(12), 0x308dd000);
});

Deno.test("find() asks for each connection by its tuple, and deleteFound() deletes what was found by its id", async () => {
  const tuple = {
    protocol: 6,
    source: TCP_FLOW.originalSource,
    destination: TCP_FLOW.originalDestination,
    sourcePort: TCP_FLOW.originalSourcePort,
    destinationPort: TCP_FLOW.originalDestinationPort,
  };
  const others = [
    { ...tuple, sourcePort: 1 },
    { ...tuple, destinationPort: 1 },
    { ...tuple, source: tuple.destination },
    { ...tuple, destination: tuple.source },
  ];
  // The kernel may answer with the other direction of a connection, too.
  const transport = new AnsweringTransport((request) =>
    request.type === GET
      ? [{ type: NEW, payload: TCP }, acknowledge(request)]
      : [acknowledge(request)]
  );
  using socket = ConntrackSocket.over(transport);
  const found = await socket.find([...others, tuple]);
  assert.equal(transport.requests.length, 5);
  const { mark, status } = TCP_FLOW;
  const id = unhex("30 8d d0 00");
  assert.deepEqual(found, [{ ...tuple, mark, status, id }]);
  assert.equal(await socket.deleteFound(found), 1);
  const request = transport.requests.at(-1);
  assert.equal(request?.type, DELETE);
  const attributes = request?.payload.attributes(4);
  assert.deepEqual(attributes?.types(), [1, 12]);
  assert.equal(
    hex(attributes?.bytes(1) ?? new Uint8Array()),
    hex(TCP.subarray(8, 4 + 0x34)),
  );
  assert.equal(attributes?.u32Be(12), 0x308dd000);
  using gone = ConntrackSocket.over(
    new AnsweringTransport((request) => [acknowledge(request, 2)]), // ENOENT
  );
  assert.deepEqual(await gone.find([tuple]), []);
  assert.equal(await gone.deleteFound(found), 0);
  using forbidden = ConntrackSocket.over(
    new AnsweringTransport((request) => [acknowledge(request, 1)]), // EPERM
  );
  await assert.rejects(forbidden.find([tuple]), NetlinkError);
  await assert.rejects(forbidden.deleteFound(found), NetlinkError);
});

Deno.test("delete() names a connection by its first packet", async () => {
  const transport = kernel();
  using socket = ConntrackSocket.over(transport);
  const tuple = {
    protocol: 6,
    source: TCP_FLOW.originalSource,
    destination: TCP_FLOW.originalDestination,
    sourcePort: TCP_FLOW.originalSourcePort,
    destinationPort: TCP_FLOW.originalDestinationPort,
  };
  assert.equal(await socket.delete(tuple), true);
  const request = transport.requests[0];
  assert.equal(request?.type, DELETE);
  assert.equal(request?.payload.u8(0), 2);
  // As the kernel writes it.
  assert.equal(
    hex(request?.payload.attributes(4).bytes(1) ?? new Uint8Array()),
    hex(TCP.subarray(8, 4 + 0x34)),
  );
  using gone = ConntrackSocket.over(
    kernel((request) => acknowledge(request, 2)), // ENOENT
  );
  assert.equal(await gone.delete(tuple), false);
  using forbidden = ConntrackSocket.over(
    kernel((request) => acknowledge(request, 1)), // EPERM
  );
  await assert.rejects(
    () => forbidden.delete(tuple),
    (error) => error instanceof NetlinkError && error.code === "EPERM",
  );
});

Deno.test("deleteWhere() counts what was still there, and throws what the kernel refuses", async () => {
  using gone = ConntrackSocket.over(
    kernel((request) => acknowledge(request, 2)), // ENOENT
  );
  assert.equal(await gone.deleteWhere(() => true), 0);
  using forbidden = ConntrackSocket.over(
    kernel((request) => acknowledge(request, 1)), // EPERM
  );
  await assert.rejects(
    () => forbidden.deleteWhere(() => true),
    (error) => error instanceof NetlinkError && error.code === "EPERM",
  );
});

Deno.test("a visitor that throws ends the visit with its error, and the socket goes on", async () => {
  using socket = ConntrackSocket.over(kernel());
  const error = new RangeError("enough");
  await assert.rejects(
    () =>
      socket.visit(() => {
        throw error;
      }),
    (thrown) => thrown === error,
  );
  assert.deepEqual(await socket.count(), { entries: 2, max: 262144 });
});

Deno.test("ConntrackSocket is closed on another thread, for which only `await using` waits", async () => {
  for (const isAwaited of [false, true]) {
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const transport = new class extends AnsweringTransport {
      override closeOffThread(): Promise<void> {
        begin();
        return ended;
      }
    }(() => []);
    const socket = ConntrackSocket.over(transport);
    const closing = isAwaited
      ? socket[Symbol.asyncDispose]()
      : socket[Symbol.dispose]();
    await begun;
    assert.equal(closing instanceof Promise, isAwaited);
    assert.equal(transport.closed, false, "on this thread");
    end();
    await closing;
  }
});
