import { ERRNO } from "../../linux/mod.ts";
import type { Connection } from "./connection.ts";
import { NetlinkError } from "../message/errors.ts";
import type { MessageWriter } from "../message/message_writer.ts";

/** struct genlmsghdr of `<linux/genetlink.h>`. */
export const GENERIC_HEADER_SIZE = 4;
/** GENL_ID_CTRL: the family that knows the others. */
const GENL_ID_CTRL = 16;
const CTRL_CMD_GETFAMILY = 3;
/** What ip gives; the kernel does not look. */
const CTRL_VERSION = 0;
const CTRL_ATTR_FAMILY_ID = 1;
const CTRL_ATTR_FAMILY_NAME = 2;

/** Writes a `struct genlmsghdr`. */
export function writeGenericHeader(
  writer: MessageWriter,
  header: { readonly command: number; readonly version: number },
): void {
  writer.u8(header.command);
  writer.u8(header.version);
  writer.u16(0); // reserved
}

/**
 * Asks for the number of a generic netlink family, which is the type of its
 * messages; undefined when the kernel has no such family. Asking as root makes
 * the kernel load the module that says it has it (ctrl_getfamily() in
 * net/netlink/genetlink.c).
 *
 * @throws {NetlinkError} when the kernel refuses
 */
export async function findGenericFamily(
  connection: Connection,
  name: string,
): Promise<number | undefined> {
  let id: number | undefined;
  const [error] = await connection.tryExecute([{
    type: GENL_ID_CTRL,
    flags: 0,
    describe: () => `look up generic netlink family "${name}"`,
    write(writer) {
      writeGenericHeader(writer, {
        command: CTRL_CMD_GETFAMILY,
        version: CTRL_VERSION,
      });
      writer.attributeString(CTRL_ATTR_FAMILY_NAME, name);
    },
    onReply({ payload }) {
      id = payload.attributes(GENERIC_HEADER_SIZE).u16(CTRL_ATTR_FAMILY_ID);
    },
  }]);
  if (error instanceof NetlinkError && error.errno !== ERRNO.ENOENT) {
    throw error;
  }
  return id;
}
