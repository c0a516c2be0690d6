// A cache of names as it runs on nodes: answers each question for an address.
//
//   deno run -A --unstable-net name_server_main.ts ADDRESS IPV4 IPV6
const [hostname = "", ipv4 = "", ipv6 = ""] = Deno.args;

/** Types of RFC 1035 and RFC 3596. */
const TYPES: Readonly<Record<number, Uint8Array>> = {
  1: Uint8Array.from(ipv4.split(".").map(Number)),
  28: bytesOf(ipv6),
};

/** An address without a run of zeros at an end. */
function bytesOf(address: string): Uint8Array {
  const [head = "", tail = ""] = address.split("::");
  const groups = (text: string) =>
    text.split(":").filter((group) => group !== "").map((g) => parseInt(g, 16));
  const [first, last] = [groups(head), groups(tail)];
  const zeros = Array<number>(8 - first.length - last.length).fill(0);
  const all = [first, zeros, last].flat();
  return Uint8Array.from(all.flatMap((group) => [group >> 8, group & 0xff]));
}

/** The question with one answer behind it, or none. */
function answerTo(query: Uint8Array): Uint8Array {
  let at = 12;
  while ((query[at] ?? 0) !== 0) at += (query[at] ?? 0) + 1;
  const question = query.subarray(12, at + 5);
  const data = TYPES[query[at + 2] ?? 0];
  const head = [...query.subarray(0, 2), 0x81, 0x80, 0, 1];
  const counts = [0, data === undefined ? 0 : 1, 0, 0, 0, 0];
  const record = data === undefined ? [] : [
    ...[0xc0, 12, ...query.subarray(at + 1, at + 5), 0, 0, 0, 5],
    ...[0, data.length, ...data],
  ];
  return Uint8Array.from([...head, ...counts, ...question, ...record]);
}

const socket = Deno.listenDatagram({ hostname, port: 53, transport: "udp" });
Deno.stdout.writeSync(new TextEncoder().encode("listening\n"));
for await (const [query, from] of socket) {
  await socket.send(answerTo(query), from);
}
