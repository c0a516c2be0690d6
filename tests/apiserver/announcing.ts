import { formatAnnouncement } from "../../lib/announce/mod.ts";
import { Address } from "../../lib/inet/mod.ts";
import { EGRESS, NAMESPACE } from "./egress_gateway_lab.ts";

/** A client of the lab's Egress, a pod of namespace "team". */
export interface AnnouncedClient {
  /** Of the coild that announces it. */
  readonly token: string;
  readonly name: string;
  readonly uid: string;
  readonly address: string;
  /** That has the address; unknown when absent. */
  readonly block?: string | undefined;
}

/** Announces a client once, as coild does. */
export async function postAnnouncement(
  url: string,
  { token, name, uid, address, block }: AnnouncedClient,
): Promise<Response> {
  return await fetch(url, {
    method: "POST",
    headers: { authorization: `Bearer ${token}` },
    body: formatAnnouncement({
      egress: { namespace: NAMESPACE, name: EGRESS },
      pod: { namespace: "team", name, uid },
      addresses: [Address.parse(address)],
      block,
    }),
  });
}
