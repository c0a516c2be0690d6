import type { Netns } from "../../linux/mod.ts";
import { RTM_GETNSID, RTM_NEWNSID } from "../message/constants.ts";
import type { Request } from "../message/request.ts";

/** Attributes of `<linux/net_namespace.h>`. */
const NETNSA_NSID = 1;
const NETNSA_FD = 3;
/** NETNSA_NSID_NOT_ASSIGNED of `<linux/net_namespace.h>`. */
const NOT_ASSIGNED = -1;
/** struct rtgenmsg, padded. */
const RTGENMSG_SIZE = 4;

/**
 * Asks for the number by which the socket's namespace knows another one, the
 * one that `Link.peerNetnsId` gives; `onId` gets undefined when it has
 * none. The other namespace must stay open until this is sent.
 */
export function netnsIdGet(
  netns: Netns,
  onId: (id: number | undefined) => void,
): Request {
  return {
    type: RTM_GETNSID,
    flags: 0,
    describe: () => `get the number of network namespace "${netns.path}"`,
    write(writer) {
      writer.u32(0);
      writer.attributeU32(NETNSA_FD, netns.fd);
    },
    onReply({ type, payload }) {
      if (type !== RTM_NEWNSID) return;
      const id = payload.attributes(RTGENMSG_SIZE).i32(NETNSA_NSID);
      onId(id === NOT_ASSIGNED ? undefined : id);
    },
  };
}
