// Traffic of the egress tests. One process holds all sockets: a process of its
// own for each would cost more than the test, in a virtual machine.
import { messageOf } from "../../lib/errors/mod.ts";
import { inNetns, Netns, openLibc } from "../../lib/linux/mod.ts";
import { eventually, sleep } from "../lab/mod.ts";
import { OUTSIDE, VM_FAMILIES } from "./topology.ts";

openLibc(); // stays open, so it must not be counted as some test's leak

/**
 * For connections that may get no answer. After a second the kernel sends a lost
 * SYN again; a connection that is made just when its time is over stays open,
 * since Deno.connect() does not close it.
 */
export const BEFORE_RETRY_MS = 900;

/** Port of the servers outside, of TCP and of UDP. */
export const ECHO_PORT = 7000;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Sockets in another network namespace. They belong there for ever, wherever they are used. */
export class NetnsSockets implements Disposable {
  readonly #netns: Netns;

  constructor(name: string) {
    this.#netns = Netns.open(`/run/netns/${name}`);
  }

  listen(hostname: string, port: number): Deno.TcpListener {
    return inNetns(this.#netns, () => Deno.listen({ hostname, port }));
  }

  listenDatagram(hostname: string, port: number): Deno.DatagramConn {
    return inNetns(
      this.#netns,
      () => Deno.listenDatagram({ hostname, port, transport: "udp" }),
    );
  }

  /** The socket is made before the promise is, and so in the right namespace. */
  async connect(
    hostname: string,
    options: { readonly port: number; readonly timeoutMs: number },
  ): Promise<Deno.TcpConn> {
    const { port, timeoutMs } = options;
    const signal = AbortSignal.timeout(timeoutMs);
    const { connecting } = inNetns(this.#netns, () => ({
      connecting: Deno.connect({
        hostname,
        port,
        signal,
        autoSelectFamily: false,
      }),
    }));
    return await connecting;
  }

  [Symbol.dispose](): void {
    this.#netns[Symbol.dispose]();
  }
}

/** The servers outside: they tell who asks where it seems to come from, and echo. */
export class OutsideServers implements AsyncDisposable {
  readonly #sockets: NetnsSockets;
  readonly #closeables: Disposable[] = [];
  readonly #loops: Promise<void>[] = [];
  readonly #open = new Set<Deno.TcpConn>();

  constructor(netns: string) {
    this.#sockets = new NetnsSockets(netns);
    for (const family of VM_FAMILIES) {
      for (const address of Object.values(OUTSIDE[family])) {
        const tcp = this.#sockets.listen(address, ECHO_PORT);
        const udp = this.#sockets.listenDatagram(address, ECHO_PORT);
        this.#closeables.push(tcp, { [Symbol.dispose]: () => udp.close() });
        this.#loops.push(this.#accept(tcp), answerDatagrams(udp));
      }
    }
  }

  async #accept(listener: Deno.TcpListener): Promise<void> {
    const served: Promise<void>[] = [];
    for await (const conn of listener) {
      this.#open.add(conn);
      served.push(echo(conn).finally(() => this.#open.delete(conn)));
    }
    await Promise.all(served);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Those of clients that were cut off know nothing of it.
    for (const conn of this.#open) conn.close();
    for (const closeable of this.#closeables) closeable[Symbol.dispose]();
    await Promise.all(this.#loops);
    this.#sockets[Symbol.dispose]();
  }
}

/** First the peer's address, then all that comes; `BULK n` asks for n bytes. */
async function echo(conn: Deno.TcpConn): Promise<void> {
  try {
    using _closed = conn;
    await writeAll(conn, `${conn.remoteAddr.hostname}\n`);
    const buffer = new Uint8Array(16_384);
    while (true) {
      const length = await conn.read(buffer);
      if (length === null) return;
      const text = decoder.decode(buffer.subarray(0, length));
      const bulk = /^BULK (\d+)\n$/.exec(text)?.[1];
      await writeAll(conn, bulk === undefined ? text : "x".repeat(+bulk));
    }
  } catch (error) {
    // A client that was cut off, as some tests do.
    if (error instanceof Deno.errors.ConnectionReset) return;
    if (error instanceof Deno.errors.BrokenPipe) return;
    if (error instanceof Deno.errors.TimedOut) return;
    if (error instanceof Deno.errors.BadResource) return;
    if (error instanceof Deno.errors.Interrupted) return;
    // Its gateway's node says that the gateway is gone.
    const { code } = error as { readonly code?: string };
    if (code === "EHOSTUNREACH" || code === "ENETUNREACH") return;
    throw error;
  }
}

async function writeAll(conn: Deno.Conn, text: string): Promise<void> {
  const bytes = encoder.encode(text);
  for (let at = 0; at < bytes.length;) {
    at += await conn.write(bytes.subarray(at));
  }
}

/** `<number> <bytes>` is answered by `<number> <source address> <padding>` of so many bytes, or as short as can be. */
async function answerDatagrams(socket: Deno.DatagramConn): Promise<void> {
  for await (const [data, peer] of socket) {
    const [id = "", size = "0"] = decoder.decode(data).split(" ");
    const source = (peer as Deno.NetAddr).hostname;
    const answer = `${id} ${source} `.padEnd(Number(size), ".");
    await socket.send(encoder.encode(answer), peer).catch(() => {
      // Too large as yet: the path has just become known to be narrow.
    });
  }
}

/** What a flow has seen so far. */
export interface FlowReport {
  readonly sent: number;
  readonly answered: number;
  /** Addresses that the outside saw as source. */
  readonly sources: ReadonlySet<string>;
  /** The time without an answer at each change to another source. */
  readonly movedMs: readonly number[];
  /** The longest time without an answer. */
  readonly longestGapMs: number;
  /** Why the flow ended, when it did so by itself. */
  readonly error?: string;
}

class Tally {
  sent = 0;
  answered = 0;
  readonly sources: Set<string> = new Set();
  readonly #movedMs: number[] = [];
  error: string | undefined;
  #longestGapMs = 0;
  #lastMs = performance.now();

  get silentMs(): number {
    return performance.now() - this.#lastMs;
  }

  answer(source: string): void {
    this.answered++;
    const isOther = this.sources.size > 0 && !this.sources.has(source);
    if (isOther) this.#movedMs.push(Math.round(this.silentMs));
    this.sources.add(source);
    this.#noteGap();
  }

  #noteGap(): void {
    const now = performance.now();
    this.#longestGapMs = Math.max(this.#longestGapMs, now - this.#lastMs);
    this.#lastMs = now;
  }

  report(): FlowReport {
    const { sent, answered, sources, error } = this;
    const gap = Math.max(this.#longestGapMs, performance.now() - this.#lastMs);
    return {
      sent,
      answered,
      sources,
      movedMs: this.#movedMs,
      longestGapMs: Math.round(gap),
      ...(error === undefined ? {} : { error }),
    };
  }
}

/** How a flow is made. */
export interface FlowOptions {
  readonly address: string;
  /** Time between two messages. */
  readonly intervalMs?: number;
}

const INTERVAL_MS = 50;
/** Of connections that work: several lost packets of a busy machine are sent again by then. */
const PATIENCE_MS = 20_000;
/** For a mebibyte there and back, beside a hundred others. */
const BULK_MS = 600_000;
/** An answer to a datagram comes within this time, or never. */
const LATE_MS = 20_000;

/** UDP datagrams, one after the other, from one socket. */
export class UdpFlow implements AsyncDisposable {
  readonly #tally = new Tally();
  readonly #socket: Deno.DatagramConn;
  readonly #done: Promise<unknown>;
  /** Numbers of those without an answer so far; the last one's is the number of all. */
  readonly #unanswered: Set<number> = new Set();
  #stopped = false;

  constructor(sockets: NetnsSockets, options: FlowOptions) {
    const { address, intervalMs = INTERVAL_MS } = options;
    const any = address.includes(":") ? "::" : "0.0.0.0";
    this.#socket = sockets.listenDatagram(any, 0);
    this.#done = Promise.all([
      this.#send(address, intervalMs),
      this.#receive(),
    ]);
  }

  async #send(hostname: string, intervalMs: number): Promise<void> {
    const to = { transport: "udp", hostname, port: ECHO_PORT } as const;
    while (!this.#stopped) {
      const number = ++this.#tally.sent;
      this.#unanswered.add(number);
      const text = `${number} 0`;
      // Refused while there is no gateway; the flow goes on when there is one.
      await this.#socket.send(encoder.encode(text), to).catch((error) => {
        this.#tally.error = messageOf(error);
      });
      await sleep(intervalMs);
    }
  }

  async #receive(): Promise<void> {
    while (!this.#stopped) {
      try {
        const [data] = await this.#socket.receive();
        const [number, source = ""] = decoder.decode(data).split(" ");
        this.#unanswered.delete(Number(number));
        this.#tally.answer(source);
      } catch (error) {
        // An ICMP error shows here, too.
        if (!this.#stopped) this.#tally.error = messageOf(error);
      }
    }
  }

  get report(): FlowReport {
    return this.#tally.report();
  }

  /** Addresses that the outside saw as source. */
  get sources(): ReadonlySet<string> {
    return this.#tally.sources;
  }

  /** Since the last answer. */
  get silentMs(): number {
    return this.#tally.silentMs;
  }

  /** How many of the datagrams after this number, and sent until now, have no answer; the last ones may be under way for a while. */
  async countLost(after = 0): Promise<number> {
    const sent = [...this.#unanswered].filter((number) => number > after);
    const lost = () => sent.filter((number) => this.#unanswered.has(number));
    const options = { timeoutMs: LATE_MS };
    await eventually("late answers", () => lost().length === 0, options)
      .catch(() => {});
    return lost().length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#socket.close();
    await this.#done;
  }
}

/** A TCP connection over which lines go to and fro. */
export class TcpFlow implements AsyncDisposable {
  readonly #tally = new Tally();
  readonly #conn: Deno.TcpConn;
  readonly #done: Promise<void>;
  readonly #intervalMs: number;
  #stopped = false;
  #paused = false;

  private constructor(
    conn: Deno.TcpConn,
    options: { readonly source: string; readonly intervalMs: number },
  ) {
    this.#conn = conn;
    this.#intervalMs = options.intervalMs;
    this.#tally.sources.add(options.source);
    this.#done = this.#run();
  }

  /** Connects and begins. @throws {Error} when that fails, as where no way leads outside. */
  static async open(
    sockets: NetnsSockets,
    options: FlowOptions & { readonly timeoutMs?: number },
  ): Promise<TcpFlow> {
    const { address, intervalMs = INTERVAL_MS, timeoutMs = PATIENCE_MS } =
      options;
    const conn = await sockets.connect(address, { port: ECHO_PORT, timeoutMs });
    try {
      const source = (await readText(conn)).trim();
      return new TcpFlow(conn, { source, intervalMs });
    } catch (error) {
      conn.close();
      throw error;
    }
  }

  async #run(): Promise<void> {
    try {
      while (!this.#stopped) {
        if (!this.#paused) await this.#exchange();
        await sleep(this.#intervalMs);
      }
    } catch (error) {
      if (!this.#stopped) this.#tally.error = messageOf(error);
    }
  }

  async #exchange(): Promise<void> {
    const text = `line ${++this.#tally.sent}\n`;
    await writeAll(this.#conn, text);
    const answer = await readText(this.#conn, text.length);
    if (answer !== text) throw new Error(`echo of "${text}" is "${answer}"`);
    this.#tally.answer([...this.#tally.sources][0] ?? "");
  }

  /** Lets the connection be idle until what it returns is disposed. */
  pause(): Disposable {
    this.#paused = true;
    return { [Symbol.dispose]: () => this.#paused = false };
  }

  get report(): FlowReport {
    return this.#tally.report();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    try {
      this.#conn.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
    await this.#done;
  }
}

async function readText(conn: Deno.Conn, length: number = 1): Promise<string> {
  const buffer = new Uint8Array(4096);
  let text = "";
  while (text.length < length) {
    const read = await conn.read(buffer);
    if (read === null) throw new Error("the connection was ended");
    text += decoder.decode(buffer.subarray(0, read));
  }
  return text;
}

/** Asks once by TCP and returns the source that the outside saw. */
export async function askTcp(
  sockets: NetnsSockets,
  address: string,
  options: { readonly timeoutMs?: number } = {},
): Promise<string> {
  const { timeoutMs = PATIENCE_MS } = options;
  const conn = await sockets.connect(address, { port: ECHO_PORT, timeoutMs });
  using _closed = closing(conn, timeoutMs);
  return (await readText(conn)).trim();
}

/** Closes the connection at the end, or when the time is over: a way that changes may leave it without an answer. */
function closing(conn: Deno.Conn, timeoutMs: number): Disposable {
  let isOpen = true;
  const close = () => {
    if (isOpen) conn.close();
    isOpen = false;
  };
  const timer = setTimeout(close, timeoutMs);
  return {
    [Symbol.dispose](): void {
      clearTimeout(timer);
      close();
    },
  };
}

/** Asks once by UDP, one datagram only, and returns source and size of the answer; undefined when none comes. */
export async function askUdp(
  sockets: NetnsSockets,
  address: string,
  options: { readonly timeoutMs?: number; readonly answerBytes?: number } = {},
): Promise<{ source: string; bytes: number } | undefined> {
  const { timeoutMs = 30_000, answerBytes = 0 } = options;
  const any = address.includes(":") ? "::" : "0.0.0.0";
  const socket = sockets.listenDatagram(any, 0);
  const timer = setTimeout(() => socket.close(), timeoutMs);
  try {
    await socket.send(encoder.encode(`1 ${answerBytes}`), {
      transport: "udp" as const,
      hostname: address,
      port: ECHO_PORT,
    });
    const [data] = await socket.receive();
    socket.close();
    const [, source = ""] = decoder.decode(data).split(" ");
    return { source, bytes: data.length };
  } catch (error) {
    // Closed above when the time was over.
    if (error instanceof Deno.errors.BadResource) return undefined;
    if (error instanceof Deno.errors.Interrupted) return undefined;
    socket.close();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** Fetches so many bytes by TCP from outside: large packets come this way. */
export async function fetchBulk(
  sockets: NetnsSockets,
  address: string,
  bytes: number,
): Promise<number> {
  const conn = await sockets.connect(address, {
    port: ECHO_PORT,
    timeoutMs: PATIENCE_MS,
  });
  using _closed = closing(conn, 60_000);
  await readText(conn);
  await writeAll(conn, `BULK ${bytes}\n`);
  return (await readText(conn, bytes)).length;
}

/** Sends so many bytes over one connection, and returns whether the same came back. */
export async function echoBulk(
  sockets: NetnsSockets,
  address: string,
  bytes: number,
): Promise<boolean> {
  const conn = await sockets.connect(address, {
    port: ECHO_PORT,
    timeoutMs: BULK_MS,
  });
  using _closed = closing(conn, BULK_MS);
  await readText(conn);
  const text = "0123456789abcdef".repeat(Math.ceil(bytes / 16)).slice(0, bytes);
  const [echo] = await Promise.all([
    readText(conn, bytes),
    writeAll(conn, text),
  ]);
  return echo === text;
}

/** Connects from one namespace to a port that the other serves for this, and reads an answer. @throws {Error} when none comes. */
export async function visit(
  from: NetnsSockets,
  to: NetnsSockets,
  { hostname, port, timeoutMs }: {
    readonly hostname: string;
    readonly port: number;
    readonly timeoutMs: number;
  },
): Promise<void> {
  using listener = to.listen(hostname, port);
  using asking = await from.connect(hostname, { port, timeoutMs });
  using answering = await listener.accept();
  await writeAll(answering, "answer");
  const answer = await readText(asking, "answer".length);
  if (answer !== "answer") throw new Error(`the answer was "${answer}"`);
}
