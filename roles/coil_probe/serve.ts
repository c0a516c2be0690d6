import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { Allowances, type Rate, untilAborted } from "../../lib/async/mod.ts";
import { getLogger, serveAt } from "../../lib/telemetry/mod.ts";
import { answerTo } from "./datagrams.ts";

const log = getLogger("probe");

/** A probe is asked by all others at once. A body is several packets of the largest MTU. */
const LIMITS = { maxConnections: 256, maxPerPeer: 64, maxBodyBytes: 64 * 1024 };
/** Answers by UDP to one address. */
const RATE: Rate = { burst: 200, perSecond: 100 };
const MAX_PEERS = 4_096;

/** Which port, under which name. */
export interface ServeOptions {
  /** 0 lets the kernel choose each. */
  readonly port: number;
  readonly name: string;
  /** Of answers by UDP to one address. */
  readonly rate?: Rate;
  readonly signal: AbortSignal;
}

/** A probe that answers. */
export interface Serving {
  readonly tcpPort: number;
  readonly udpPort: number;
  /** Resolves when it has ended. */
  readonly finished: Promise<void>;
}

/** Answers by TCP (HTTP) and UDP with its name and the address that it saw, until the signal aborts. */
export async function serve(
  { port, name, rate = RATE, signal }: ServeOptions,
): Promise<Serving> {
  const http = serveAt(
    `:${port}`,
    (_request, peer) => Response.json({ by: name, source: peer }),
    { flag: "--port", limits: LIMITS, signal },
  );
  const socket = await bind(port);
  answerDatagrams(socket, { name, rate });
  const close = async () => {
    await untilAborted(signal);
    socket.close();
    await http.finished;
  };
  return {
    tcpPort: http.port,
    udpPort: socket.address().port,
    finished: close(),
  };
}

async function bind(port: number): Promise<Socket> {
  try {
    return await bindTo("udp6", { address: "::", port });
  } catch {
    // No IPv6 in this kernel; any other reason is the same for IPv4.
    return await bindTo("udp4", { address: "0.0.0.0", port });
  }
}

async function bindTo(
  type: "udp4" | "udp6",
  address: { readonly address: string; readonly port: number },
): Promise<Socket> {
  const socket = createSocket(type);
  socket.bind(address);
  await once(socket, "listening");
  return socket;
}

function answerDatagrams(
  socket: Socket,
  { name, rate }: { readonly name: string; readonly rate: Rate },
): void {
  const rates = new Allowances(rate, { max: MAX_PEERS });
  socket.on("error", (err) => log.warn("Cannot receive datagrams", { err }));
  socket.on("message", (datagram, { address, port }) => {
    // A socket of both families sees IPv4 as ::ffff:192.0.2.1.
    const source = address.replace(/^::ffff:(?=.*\.)/i, "");
    const answer = answerTo(datagram, { by: name, source });
    if (answer === undefined || !rates.of(source).take()) return;
    socket.send(answer, port, address, (err) => {
      if (err) log.debug("Cannot answer a datagram", { err });
    });
  });
}
