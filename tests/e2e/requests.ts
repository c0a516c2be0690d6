// What Coil's programs asked the API server for, by its audit log.
import assert from "node:assert/strict";
import type { AuditedRequest } from "../lab/audit.ts";
import type { Installation } from "./installation.ts";

const ACCOUNTS = "system:serviceaccount:kube-system:";

/** The requests of Coil's service accounts. */
export async function coilRequests(
  { plane }: Installation,
  filter: { readonly since?: Date } = {},
): Promise<readonly AuditedRequest[]> {
  const all = await plane.auditRequests(filter);
  return all.filter(({ user }) => user.startsWith(`${ACCOUNTS}coil`));
}

/** Name of the service account that asked. */
export function accountOf({ user }: AuditedRequest): string {
  return user.slice(ACCOUNTS.length);
}

/** Each of these service accounts, and no other of Coil's, asked for something, and nobody was refused. */
export async function assertNothingRefused(
  site: Installation,
  accounts: readonly string[],
): Promise<void> {
  const requests = await coilRequests(site);
  const askers = new Set(requests.map(accountOf));
  assert.deepEqual([...askers].sort(), [...accounts].sort());
  const refused = requests.filter(({ code }) => code === 401 || code === 403)
    .map(({ user, verb, uri }) => `${user} ${verb} ${uri}`);
  assert.deepEqual(refused, []);
}
