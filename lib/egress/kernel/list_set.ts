import {
  type NetfilterSocket,
  NetlinkError,
  type NftElement,
} from "../../netlink/mod.ts";

/**
 * The elements of a set of a table; none where the table or the set does not
 * exist. `planned` as with `NetfilterSocket.listSet()`.
 *
 * @throws {NetlinkError} when the kernel refuses
 */
export async function listSetIfAny(
  netfilter: Pick<NetfilterSocket, "listSet">,
  table: string,
  set: string,
  options: { readonly planned?: number } = {},
): Promise<readonly NftElement[]> {
  try {
    return await netfilter.listSet(table, set, options);
  } catch (error) {
    if (error instanceof NetlinkError && error.code === "ENOENT") return [];
    throw error;
  }
}
