// One executable, many roles. The role is chosen by the name it was called by,
// else by the first argument; each is loaded only when it is chosen, so that
// the CNI plugin, which starts for every pod, loads nothing but itself.

interface Role {
  main(
    args: readonly string[],
    options: { readonly program: string },
  ): Promise<void>;
}

const ROLES: Readonly<Record<string, () => Promise<Role>>> = {
  "coild": () => import("./roles/coild/mod.ts"),
  "coil-controller": () => import("./roles/coil_controller/mod.ts"),
  // Upstream's two controllers: the same one with other defaults.
  "coil-ipam-controller": () => import("./roles/coil_controller/mod.ts"),
  "coil-egress-controller": () => import("./roles/coil_controller/mod.ts"),
  "coil-egress": () => import("./roles/coil_egress/mod.ts"),
  // A CNI plugin, too; it has a name of its own.
  "coordinator": () => import("./roles/coordinator/mod.ts"),
  "coil-router": () => import("./roles/coil_router/mod.ts"),
  "coil-installer": () => import("./roles/coil_installer/mod.ts"),
  "coil-migrator": () => import("./roles/coil_migrator/mod.ts"),
  // As in "coil migrate dump".
  "migrate": () => import("./roles/coil_migrator/mod.ts"),
  // Run in pods by "coil connectivity test".
  "probe": () => import("./roles/coil_probe/mod.ts"),
};

/**
 * The name this process was called by, a symbolic link's included. The kernel
 * keeps it, whichever way the executable was made.
 */
function calledName(): string {
  const argv0 = Deno.readTextFileSync("/proc/self/cmdline").split("\0", 1)[0];
  return argv0?.split("/").at(-1) ?? "";
}

/** `coil controller` is `coil-controller`; `coil coild` is `coild`. */
function roleOf(word: string | undefined): string | undefined {
  if (word === undefined) return undefined;
  return [word, `coil-${word}`].find((name) => Object.hasOwn(ROLES, name));
}

/** `coil egress --flag` is the gateway, `coil egress show` is for administrators. */
function isEgressCommand([first, second = "-"]: readonly string[]): boolean {
  return first === "egress" && !second.startsWith("-");
}

async function start(
  program: string,
  args: readonly string[],
): Promise<void> {
  const role = await ROLES[program]?.();
  await role?.main(args, { program });
}

/** As "kubectl coil", and what kubectl asks for its completion. */
async function startPlugin(
  name: string,
  args: readonly string[],
): Promise<void> {
  const cli = await import("./roles/cli/mod.ts");
  if (name === "kubectl_complete-coil") return await cli.complete(args);
  if (args[0] === "migrate") return await start("migrate", args.slice(1));
  await cli.main(args, { program: "kubectl coil" });
}

async function main(args: readonly string[]): Promise<void> {
  const name = calledName();
  if (name === "kubectl-coil" || name === "kubectl_complete-coil") {
    return await startPlugin(name, args);
  }
  if (Object.hasOwn(ROLES, name)) return await start(name, args);
  const byArgument = isEgressCommand(args) ? undefined : roleOf(args[0]);
  if (byArgument !== undefined) return await start(byArgument, args.slice(1));
  if (!Deno.env.get("CNI_COMMAND") && args.length > 0) {
    const cli = await import("./roles/cli/mod.ts");
    return await cli.main(args, { program: "coil" });
  }
  const plugin = await import("./roles/coil/mod.ts");
  await plugin.main();
}

await main(Deno.args);
