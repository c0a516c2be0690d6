// What the story asks of the world of nodes and pods, which is in a virtual
// machine or in a network namespace: requests and answers are lines of JSON.
import { TextLineStream } from "../lab/lines.ts";

/** Program that makes the world; its argument is where the story listens. */
export const WORLD: string = new URL("world.ts", import.meta.url).pathname;

/** A pod, or a gateway's. */
export interface WorldPod {
  readonly name: string;
  readonly node: string;
  /** IPv4 before IPv6. */
  readonly addresses: readonly string[];
}

/** What a pod hears when it asks a server outside who it is. */
export interface Heard {
  /** The address that the server sees. */
  readonly source?: string;
  /** Why there is no answer. */
  readonly refusal?: string;
  readonly ms: number;
}

/** A question to the servers outside; one packet of UDP, or a TCP connection. */
export interface Question {
  readonly pod: string;
  readonly address: string;
  readonly protocol: "tcp" | "udp";
  /** Whether it has to be answered, however long a slow machine takes. */
  readonly patient: boolean;
}

/** A pod to be made, and its first questions, asked at once. */
export interface NewPod {
  readonly name: string;
  /** 0 or 1. */
  readonly node: number;
  /** The Egresses that it uses. */
  readonly egresses?: string;
  /** Addresses to ask before anybody knows the pod's status. */
  readonly firstAsks?: readonly string[];
}

/** A client, and the Egress of which it is to lose the gateway that it uses. */
export interface Losing {
  readonly pod: string;
  readonly egress: string;
  /** Whether its waiting program gets an error when the gateway is lost; the demo waits for that. */
  readonly isTold: boolean;
}

/** What a client saw when its gateway was killed, in milliseconds. */
export interface Lost {
  readonly pod: string;
  /** The gateway's pod. */
  readonly gateway: string;
  /** The longest times without an answer of pollers, and without a byte of a download. */
  readonly poller: number;
  readonly download: number;
  /** From the end of the gateway until the last new connection began that had no answer within a second. */
  readonly connections: number;
  /** Until a program that waits on a connection was told that it has ended; undefined when it waits on. */
  readonly waiting?: number | undefined;
}

/** All requests: what they take and what they give. */
export interface WorldApi {
  createPod(
    pod: NewPod,
  ): Promise<{ readonly pod: WorldPod; readonly heard: readonly Heard[] }>;
  ask(question: Question): Promise<Heard>;
  /** Waits until so many gateways serve, and the nodes' proxies know. */
  gateways(
    wanted: { readonly egress: string; readonly count: number },
  ): Promise<readonly WorldPod[]>;
  /** Freezes all gateways of an Egress, or lets them go on. */
  freeze(
    what: { readonly egress: string; readonly frozen: boolean },
  ): Promise<void>;
  /** Kills the gateways that clients use, with their networks, all at once, while each client has traffic. */
  killGateways(
    what: { readonly clients: readonly Losing[] },
  ): Promise<readonly Lost[]>;
  /** Has those that were killed replaced. */
  replaceGateways(none: Record<string, never>): Promise<void>;
  /** Packets outside whose source was no gateway's, since the last time that this was asked. */
  leaks(none: Record<string, never>): Promise<number>;
  /** Ends of all logs. */
  logs(none: Record<string, never>): Promise<string>;
}

/** A line from the story. */
export interface Request {
  readonly name: keyof WorldApi;
  readonly argument: unknown;
}

/** A line from the world. The first one, to no request, says that it is ready. */
export interface Answer {
  readonly value?: unknown;
  readonly error?: string;
}

/** One end of the connection between story and world. */
export class JsonLines implements Disposable {
  readonly #conn: Deno.Conn;
  readonly #lines: ReadableStreamDefaultReader<string>;

  constructor(conn: Deno.Conn) {
    this.#conn = conn;
    this.#lines = conn.readable.pipeThrough(new TextLineStream()).getReader();
  }

  async send(value: unknown): Promise<void> {
    const bytes = new TextEncoder().encode(`${JSON.stringify(value)}\n`);
    for (let at = 0; at < bytes.length;) {
      at += await this.#conn.write(bytes.subarray(at));
    }
  }

  /** The next value; undefined at the other's end. */
  async receive(): Promise<unknown> {
    const { value } = await this.#lines.read();
    return value === undefined ? undefined : JSON.parse(value);
  }

  [Symbol.dispose](): void {
    this.#lines.cancel().catch(() => {
      // The other end is gone, which is all that is wanted.
    });
  }
}
