import { eventually } from "./wait.ts";

const KUBECONFIG = JSON.stringify({
  apiVersion: "v1",
  kind: "Config",
  "current-context": "none",
  clusters: [{ name: "none", cluster: { server: "http://127.0.0.1:1" } }],
  users: [{ name: "none", user: {} }],
  contexts: [{ name: "none", context: { cluster: "none", user: "none" } }],
});

/** A coild that runs. */
export interface LoneCoild extends AsyncDisposable {
  readonly pid: number;
  /** Resolves when it has ended. */
  readonly status: Promise<Deno.CommandStatus>;
}

/**
 * Starts the executable's coild for the coordinator alone, without an API
 * server: the configurations of calls have all that it needs. It is ready when
 * this resolves.
 */
export async function startLoneCoild(
  { executable, netns, directory, memoryGroup }: {
    readonly executable: string;
    /** Path of the host's network namespace. */
    readonly netns: string;
    /** Where its sockets are. */
    readonly directory: string;
    /** The control group in which its memory counts; the caller's without it. */
    readonly memoryGroup?: string;
  },
): Promise<LoneCoild> {
  const kubeconfig = `${directory}/kubeconfig`;
  await Deno.writeTextFile(kubeconfig, KUBECONFIG);
  const join = memoryGroup === undefined
    ? []
    : ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', memoryGroup];
  const [program = "nsenter", ...args] = [
    ...join,
    ...["nsenter", `--net=${netns}`, executable, "coild"],
    `--socket=${directory}/coild.sock`,
    ...["--enable-ipam=false", "--enable-egress=false"],
    "--enable-coordinator",
  ];
  const child = new Deno.Command(program, {
    args,
    env: { COIL_NODE_NAME: "lone", KUBECONFIG: kubeconfig },
    stdout: "null",
    stderr: "null",
  }).spawn();
  await eventually(
    "coild's socket",
    () => Deno.stat(`${directory}/coordinator.sock.cni`).then(() => true),
  );
  return {
    pid: child.pid,
    status: child.status,
    async [Symbol.asyncDispose]() {
      try {
        child.kill("SIGTERM");
      } catch (error) {
        // It has ended already.
        if (!(error instanceof TypeError)) throw error;
      }
      await child.status;
    },
  };
}
