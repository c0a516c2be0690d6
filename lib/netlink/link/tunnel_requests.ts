import { RTM_NEWLINK } from "../message/constants.ts";
import { IFF_UP, IFLA_MTU, type LinkSelector, linkText } from "./link.ts";
import {
  addLink,
  linkWriter,
  type NewLink,
  selectorWriter,
  writeKind,
} from "./link_writer.ts";
import type { Request } from "../message/request.ts";
import { checkTunnel, type TunnelSpec, writeTunnel } from "./tunnel.ts";

export interface NewTunnel extends NewLink {
  /** What the tunnel does. */
  readonly tunnel: TunnelSpec;
  /** Whether it is set up at once. */
  readonly up?: boolean;
}

/**
 * Makes a tunnel. Refused with EEXIST when there is a link of that name, and
 * also when there is another tunnel of the kind with the same local and remote
 * address: by these the kernel finds the tunnel of a packet. Refused
 * with EOPNOTSUPP when the kernel has neither the kind nor a module for it.
 *
 * @throws {SyntaxError} when a name or MAC address is not one
 * @throws {TypeError} when the parts of the tunnel do not go together
 * @throws {RangeError} for a port or ttl that is not one
 */
export function linkAddTunnel(link: NewTunnel): Request {
  const tunnel = checkTunnel(link.tunnel);
  const state = link.up === true ? { flags: IFF_UP, change: IFF_UP } : {};
  const writeLink = linkWriter(link, state);
  return addLink(`create ${tunnel.kind} "${link.name}"`, (writer) => {
    writeLink(writer);
    writeKind(writer, tunnel.kind, () => writeTunnel(writer, tunnel));
  });
}

/**
 * Changes a tunnel in place: its routes stay. All of it is replaced but the
 * kind. Refused with EINVAL where it would begin to collect metadata, with
 * EEXIST where another tunnel has these addresses. An `ipip` refuses too, with
 * EINVAL, to cease collecting metadata, and to get or lose a remote address; an
 * `ip6tnl` says yes and goes on collecting.
 *
 * An `ip6tnl` gets another MTU from the kernel by the way, that of the link
 * towards its remote address less the headers, so give the wanted one.
 */
export function linkChangeTunnel(
  selector: LinkSelector,
  tunnel: TunnelSpec,
  options: { readonly mtu?: number } = {},
): Request {
  checkTunnel(tunnel);
  const { mtu } = options;
  const select = selectorWriter(selector);
  return {
    type: RTM_NEWLINK,
    flags: 0,
    describe: () => `change ${tunnel.kind} ${linkText(selector)}`,
    write(writer) {
      select(writer);
      if (mtu !== undefined) writer.attributeU32(IFLA_MTU, mtu);
      writeKind(writer, tunnel.kind, () => writeTunnel(writer, tunnel));
    },
  };
}
