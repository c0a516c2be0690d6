// The rights that deploy/base gives Coil's roles, against what the API server's
// audit log says that they used: nothing missing, nothing spare.
import { kustomize, parseManifests } from "../apiserver/deploy_render.ts";
import type { UsedRight } from "../lab/rights_log.ts";

const USER = "system:serviceaccount:";

/** Rights that no run shows, and why they are given. */
const UNSEEN: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "kube-system:coild": {
    "get nodes": "while the list of nodes is behind, and at --clear-routes",
    "get pods": "while the list is behind a pod that is being started",
    "get namespaces": "while the list is behind",
    "get addresspools": "before a pool is said not to exist",
    "watch addressblocks": "by coild of an earlier version, during an update",
    "get blockrequests": "when an answer takes long",
    "get egresses": "while the list is behind",
    "list services": "by coild of an earlier version, during an update",
    "watch services": "likewise",
  },
  "kube-system:coil-controller": {
    "patch events": "an event that comes again",
    "create deployments": "an apply that creates is a patch in the log",
    "create services": "likewise",
    "create poddisruptionbudgets": "likewise",
    "create serviceaccounts": "likewise",
    "create rolebindings": "likewise",
    "get nodes": "before blocks of a node that seems gone are released",
    "get addresspools": "while the list is behind",
    "get blockrequests": "after a conflict",
    "get addressblocks": "when a name is taken, and before a block is deleted",
    "update addresspools/finalizers": "OwnerReferencesPermissionEnforcement",
    "update egresses/finalizers": "OwnerReferencesPermissionEnforcement",
    "bind clusterroles": "asked for by the API server itself",
    "list vpcnodes": "coil ipam show in the controller's pod",
    "list addressblocks": "likewise, where the controller manages none",
    "list addresspools": "likewise",
    "get deployments": "taking over from upstream's controller",
    "get services": "taking over from upstream's controller",
    "get poddisruptionbudgets": "taking over from upstream's controller",
  },
  "kube-system:coil-router": {
    "list nodes": "while blocks do not say their nodes' addresses",
    "watch nodes": "likewise",
  },
};

interface Rule {
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

/** A role or a binding of one. */
export interface Role {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly rules?: readonly Rule[];
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly {
    readonly name: string;
    readonly namespace: string;
  }[];
}

/** "verb resource" of all rights of an account, as a directory below deploy/ gives them; deploy/base without it. */
export async function grantedTo(
  account: string,
  directory = "base",
): Promise<Set<string>> {
  const rendered = parseManifests(await kustomize(directory));
  const objects = [...rendered.values()] as unknown as Role[];
  const granted = new Set<string>();
  for (const { roleRef, subjects = [] } of objects) {
    const isBound = subjects.some(({ namespace, name }) =>
      `${namespace}:${name}` === account
    );
    if (roleRef === undefined || !isBound) continue;
    const role = objects.find(({ kind, metadata }) =>
      kind === roleRef.kind && metadata.name === roleRef.name
    );
    for (const each of rightsOf(role)) granted.add(each);
  }
  return granted;
}

/** "verb resource" of all rules of a role. */
export function rightsOf(role: Role | undefined): string[] {
  return (role?.rules ?? []).flatMap(({ verbs, resources }) =>
    resources.flatMap((resource) => verbs.map((verb) => `${verb} ${resource}`))
  );
}

/** What does not fit between what an account has and what it used. */
export interface Misfit {
  /** Rights that it asked for and never had. */
  readonly refused: readonly string[];
  /** Rights that it has, did not use, and for which nothing says why. */
  readonly spare: readonly string[];
  /** Rights that are said to be of use unseen, and that it does not have at all. */
  readonly stale: readonly string[];
}

/** Compares. @throws {Error} when the account asked for nothing: then there is nothing to compare. */
export function compareRights(
  account: string,
  { used, granted }: {
    readonly used: readonly UsedRight[];
    readonly granted: ReadonlySet<string>;
  },
): Misfit {
  const asked = new Set(usedBy(account, used).map(({ right }) => right));
  const unseen = UNSEEN[account] ?? {};
  return {
    refused: refusedTo(account, used),
    spare: [...granted].filter((right) =>
      !asked.has(right) && unseen[right] === undefined
    ),
    stale: Object.keys(unseen).filter((right) => !granted.has(right)),
  };
}

/** Rights that an account asked for and never had. @throws {Error} when it asked for nothing. */
export function refusedTo(
  account: string,
  used: readonly UsedRight[],
): readonly string[] {
  const own = usedBy(account, used);
  const had = new Set(
    own.filter(({ isGranted }) => isGranted).map(({ right }) => right),
  );
  const asked = new Set(own.map(({ right }) => right));
  return [...asked].filter((right) => !had.has(right));
}

function usedBy(
  account: string,
  used: readonly UsedRight[],
): readonly UsedRight[] {
  const own = used.filter(({ user }) => user === `${USER}${account}`);
  if (own.length === 0) throw new Error(`${account} asked for nothing`);
  return own;
}
