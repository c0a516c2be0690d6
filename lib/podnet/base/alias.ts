import type { AttachmentKey } from "../../cni/mod.ts";
import { HUSK_ALIAS_PREFIX, LINK_ALIAS_PREFIX } from "../../names/mod.ts";
import { type Link, MAX_ALIAS_BYTES } from "../../netlink/mod.ts";
import { LinkNameError } from "./errors.ts";

/** Owner of a host veth, as its alias names it. */
export interface LinkIdentity extends AttachmentKey {
  /** The address pool; empty in the egress-only mode, where the container ID is the pod's UID. */
  readonly pool: string;
}

/** A link's alias, read. */
export type ParsedAlias =
  | { readonly kind: "pod"; readonly identity: LinkIdentity }
  | { readonly kind: "husk"; readonly identity: LinkIdentity }
  /** It starts like ours but does not go on like ours. */
  | { readonly kind: "malformed" }
  | { readonly kind: "foreign" };

/**
 * The alias of a pod's host veth: `COIL:<pool>:<container ID>:<ifname>`, as
 * upstream Coil writes it.
 *
 * @throws {LinkNameError} when the parts could not be separated again or the husk's form of it would not fit into an alias
 */
export function formatAlias(identity: LinkIdentity): string {
  return format(LINK_ALIAS_PREFIX, identity);
}

/** The alias of a husk, a host veth that is cut off and waits for its deletion. Throws as `formatAlias()`. */
export function formatHuskAlias(identity: LinkIdentity): string {
  return format(HUSK_ALIAS_PREFIX, identity);
}

/**
 * What a link is by its alias. Ours are veths: a network card that was a pod's
 * comes back to the host with the alias that a container has given it.
 */
export function parseLink(
  { alias, kind }: Pick<Link, "alias" | "kind">,
): ParsedAlias {
  return parseAlias(kind === "veth" ? alias : undefined);
}

/** Reads a link's alias. Total: each text has a meaning. */
export function parseAlias(alias: string | undefined): ParsedAlias {
  if (alias === undefined) return { kind: "foreign" };
  for (const [prefix, kind] of KINDS) {
    if (!alias.startsWith(prefix)) continue;
    const identity = parseIdentity(alias.slice(prefix.length));
    return identity === undefined ? { kind: "malformed" } : { kind, identity };
  }
  return { kind: "foreign" };
}

const KINDS = [
  [HUSK_ALIAS_PREFIX, "husk"],
  [LINK_ALIAS_PREFIX, "pod"],
] as const;

function format(prefix: string, identity: LinkIdentity): string {
  const { pool, containerId, ifname } = identity;
  if (containerId === "" || ifname === "") {
    throw new LinkNameError(
      "Cannot name a link: container ID or ifname is empty",
    );
  }
  for (const part of [pool, containerId, ifname]) {
    // deno-lint-ignore no-control-regex -- the kernel ends the text at a NUL, `ip` prints the rest as it is
    if (/[:\u0000-\u001f\u007f]/.test(part)) {
      throw new LinkNameError(
        `Cannot name a link after ${
          JSON.stringify(part)
        }: it holds a colon or a control character`,
      );
    }
  }
  const text = `${pool}:${containerId}:${ifname}`;
  const bytes = new TextEncoder().encode(HUSK_ALIAS_PREFIX + text).length;
  if (bytes > MAX_ALIAS_BYTES) {
    throw new LinkNameError(
      `Cannot name a link "${text}": ${bytes} bytes exceed ${MAX_ALIAS_BYTES}`,
    );
  }
  return prefix + text;
}

function parseIdentity(text: string): LinkIdentity | undefined {
  const parts = text.split(":");
  const [pool, containerId, ifname] = parts;
  if (parts.length !== 3 || pool === undefined) return undefined;
  if (!containerId || !ifname) return undefined;
  return { pool, containerId, ifname };
}
