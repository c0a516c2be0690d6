import type { Family } from "../../inet/mod.ts";
import { NETLINK_GENERIC, type Netns, openNetlink } from "../../linux/mod.ts";
import { Connection, type Transport } from "../connection/connection.ts";
import { NetlinkError } from "../message/errors.ts";
import { familyNumber, familyOf } from "../message/family.ts";
import {
  findGenericFamily,
  GENERIC_HEADER_SIZE,
  writeGenericHeader,
} from "../connection/generic.ts";
import type { Message } from "../message/message_reader.ts";
import type { MessageWriter } from "../message/message_writer.ts";
import type { Request } from "../message/request.ts";
import { type Trace, traceFromEnvironment } from "../connection/trace.ts";
import { GENERIC_NAMES } from "../connection/trace_names.ts";

/** FOU_GENL_NAME, FOU_GENL_VERSION, commands and attributes of `<linux/fou.h>`. */
const FOU_NAME = "fou";
const FOU_VERSION = 1;
const FOU_CMD_ADD = 1;
const FOU_CMD_DEL = 2;
const FOU_CMD_GET = 3;
const FOU_ATTR_PORT = 1;
const FOU_ATTR_AF = 2;
const FOU_ATTR_IPPROTO = 3;
const FOU_ATTR_TYPE = 4;
/** FOU_ENCAP_DIRECT: the inner packet follows the UDP header at once. */
const FOU_ENCAP_DIRECT = 1;
/** A UDP port whose datagrams the kernel unpacks (Foo over UDP), on all addresses of a family. */
export interface FouPort {
  /** The family of the outer packets. */
  readonly family: Family;
  /** The UDP port. */
  readonly port: number;
  /** What is inside by its IP protocol number: 4 is IPv4, 41 is IPv6. */
  readonly protocol: number;
}

/** This kernel has no Foo over UDP: the module "fou" is neither loaded nor can it be. */
export class FouUnsupportedError extends Error {
  /** The name of the class. */
  override readonly name: string = "FouUnsupportedError";

  /** Others who find out may say more. */
  constructor(
    message: string =
      `Cannot use Foo over UDP: the kernel has no generic netlink family "${FOU_NAME}"; load its modules "fou" and "fou6"`,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The number of the family, once it is known. The kernel has one for all namespaces. */
interface FouNumber {
  type?: number;
}

/**
 * Of the kernel that this process runs on. What is refused is asked for
 * again. Nothing else answers by a number that is out of date: the kernel gives
 * them in turn, and an old one again only when a thousand others have been given
 * (genl_register_family() in net/netlink/genetlink.c).
 */
const KERNEL: FouNumber = {};

/** Reads and changes the Foo-over-UDP ports of one network namespace. Callers may share a socket. */
export class FouSocket implements Disposable {
  readonly #connection: Connection;
  readonly #number: FouNumber;

  private constructor(connection: Connection, number: FouNumber) {
    this.#connection = connection;
    this.#number = number;
  }

  /**
   * Opens a socket in a namespace; without one, in the process's own.
   *
   * @throws {LinuxError} when the kernel refuses
   */
  static open(options: { readonly netns?: Netns | undefined } = {}): FouSocket {
    const trace = traceFromEnvironment(GENERIC_NAMES);
    const transport = openNetlink(NETLINK_GENERIC, options);
    return new FouSocket(new Connection(transport, { trace }), KERNEL);
  }

  /** Works over a given transport, which it takes over. */
  static over(transport: Transport, trace?: Trace): FouSocket {
    return new FouSocket(new Connection(transport, { trace }), {});
  }

  /**
   * Lists the ports of type direct.
   *
   * @throws {FouUnsupportedError} when the kernel has no Foo over UDP, as all of these
   * @throws {NetlinkError} when the kernel refuses
   */
  async list(): Promise<FouPort[]> {
    const { ports, error } = await this.#ask((type) => this.#tryList(type));
    if (error !== undefined) throw error;
    return ports;
  }

  /** Adds a port. @throws {NetlinkError} `EADDRINUSE` when it is taken, by Foo over UDP or another socket */
  add(port: FouPort): Promise<void> {
    return this.#execute("add", port);
  }

  /** Adds ports in one send, and returns the outcome of each: undefined for done. */
  async tryAdd(
    ports: readonly FouPort[],
  ): Promise<(NetlinkError | undefined)[]> {
    if (ports.length === 0) return [];
    ports.forEach(checkPort);
    const { outcomes } = await this.#ask(async (type) => {
      const outcomes = await this.#connection.tryExecute(
        ports.map((port) => portRequest("add", type, port)),
      );
      return { outcomes, error: outcomes.find((each) => each !== undefined) };
    });
    return outcomes;
  }

  /** Takes a port away. @throws {NetlinkError} `EINVAL` when there is none like it */
  delete(port: FouPort): Promise<void> {
    return this.#execute("delete", port);
  }

  /** Closes the socket, after what is running. Harmless when done twice. */
  [Symbol.dispose](): void {
    this.#connection[Symbol.dispose]();
  }

  async #execute(verb: "add" | "delete", port: FouPort): Promise<void> {
    checkPort(port);
    const { error } = await this.#ask(async (type) => {
      const request = portRequest(verb, type, port);
      const [error] = await this.#connection.tryExecute([request]);
      return { error };
    });
    if (error !== undefined) throw error;
  }

  async #tryList(type: number): Promise<Answer & { ports: FouPort[] }> {
    const request: Request = {
      type,
      flags: 0,
      describe: () => "list FoU ports",
      write: (writer) => writeHeader(writer, FOU_CMD_GET),
    };
    try {
      const ports = await this.#connection.dump(request, parsePort);
      return { ports, error: undefined };
    } catch (error) {
      if (!(error instanceof NetlinkError)) throw error;
      return { ports: [], error };
    }
  }

  /**
   * Asks by the family's number, and once more when that was refused and the
   * number is another one by now: the module was taken out and loaded again.
   */
  async #ask<T extends Answer>(
    question: (type: number) => Promise<T>,
  ): Promise<T> {
    const known = this.#number.type;
    const answer = await question(known ?? await this.#lookUp());
    if (known === undefined || answer.error === undefined) return answer;
    const type = await this.#lookUp();
    return type === known ? answer : await question(type);
  }

  async #lookUp(): Promise<number> {
    delete this.#number.type;
    const type = await findGenericFamily(this.#connection, FOU_NAME);
    if (type === undefined) throw new FouUnsupportedError();
    this.#number.type = type;
    return type;
  }
}

/** Answer of the kernel. */
interface Answer {
  /** What the kernel refused, if anything. */
  readonly error: NetlinkError | undefined;
}

function portRequest(
  verb: "add" | "delete",
  type: number,
  port: FouPort,
): Request {
  const { family, protocol } = port;
  return {
    type,
    flags: 0,
    describe: () => `${verb} ${family} FoU port ${port.port}`,
    write(writer) {
      writeHeader(writer, verb === "add" ? FOU_CMD_ADD : FOU_CMD_DEL);
      writer.attributeU16Be(FOU_ATTR_PORT, port.port);
      writer.attributeU8(FOU_ATTR_AF, familyNumber(family));
      writer.attributeU8(FOU_ATTR_IPPROTO, protocol);
      writer.attributeU8(FOU_ATTR_TYPE, FOU_ENCAP_DIRECT);
    },
  };
}

function writeHeader(writer: MessageWriter, command: number): void {
  writeGenericHeader(writer, { command, version: FOU_VERSION });
}

/**
 * Reads a port; undefined when its family or kind of encapsulation is another.
 *
 * @throws {SyntaxError} when the message is malformed
 */
export function parsePort(message: Message): FouPort | undefined {
  const attributes = message.payload.attributes(GENERIC_HEADER_SIZE);
  const family = familyOf(attributes.u8(FOU_ATTR_AF) ?? 0);
  const direct = attributes.u8(FOU_ATTR_TYPE) === FOU_ENCAP_DIRECT;
  if (family === undefined || !direct) return undefined;
  return {
    family,
    port: attributes.u16Be(FOU_ATTR_PORT) ?? 0,
    protocol: attributes.u8(FOU_ATTR_IPPROTO) ?? 0,
  };
}

function checkPort({ port, protocol }: FouPort): void {
  if (!Number.isInteger(port) || port < 1 || port > 0xffff) {
    throw new RangeError(`Cannot use FoU port ${port}: it must be 1 to 65535`);
  }
  if (!Number.isInteger(protocol) || protocol < 1 || protocol > 0xff) {
    throw new RangeError(
      `Cannot use IP protocol ${protocol} for FoU: it must be 1 to 255`,
    );
  }
}
