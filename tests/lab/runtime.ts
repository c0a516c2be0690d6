// What a container runtime does for a pod's network: a namespace, then the
// plugin with CNI_* in its environment and the configuration on stdin
// (CNI specification 1.1.0, sections 2 and 4).
import { eventually } from "./wait.ts";

/** A pod's sandbox, as a runtime knows it. */
export interface Sandbox {
  readonly containerId: string;
  readonly namespace: string;
  readonly pod: string;
  /** Name below /run/netns. */
  readonly netns: string;
  readonly ifname: string;
}

/** A plugin's answer: its exit code, its output and what it took. */
export interface PluginAnswer {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly wallMs: number;
}

export interface PluginCall {
  readonly plugin: string;
  readonly command: "ADD" | "DEL" | "CHECK" | "GC" | "STATUS" | "VERSION";
  readonly config: Readonly<Record<string, unknown>>;
  readonly sandbox?: Sandbox;
  /** The node's network namespace to run the plugin in; default: our own. */
  readonly nodeNetns?: string;
  /** Overrides of CNI_* variables; an empty string unsets one. */
  readonly env?: Readonly<Record<string, string>>;
}

export function netnsPath(name: string): string {
  return `/run/netns/${name}`;
}

/** A sandbox of a new container ID for the named pod. */
export function sandboxOf(
  netns: string,
  pod: { readonly namespace: string; readonly name: string },
): Sandbox {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  const containerId = Array.from(
    bytes,
    (b) => b.toString(16).padStart(2, "0"),
  ).join("");
  return {
    containerId,
    namespace: pod.namespace,
    pod: pod.name,
    netns,
    ifname: "eth0",
  };
}

function environment(call: PluginCall): Record<string, string> {
  const { sandbox } = call;
  const env: Record<string, string> = {
    PATH: Deno.env.get("PATH") ?? "/usr/bin:/usr/sbin",
    CNI_COMMAND: call.command,
    CNI_PATH: call.plugin.slice(0, call.plugin.lastIndexOf("/")),
  };
  if (sandbox !== undefined) {
    env["CNI_CONTAINERID"] = sandbox.containerId;
    env["CNI_NETNS"] = netnsPath(sandbox.netns);
    env["CNI_IFNAME"] = sandbox.ifname;
    env["CNI_ARGS"] = [
      "IgnoreUnknown=1",
      `K8S_POD_NAMESPACE=${sandbox.namespace}`,
      `K8S_POD_NAME=${sandbox.pod}`,
      `K8S_POD_INFRA_CONTAINER_ID=${sandbox.containerId}`,
    ].join(";");
  }
  for (const [name, value] of Object.entries(call.env ?? {})) {
    if (value === "") delete env[name];
    else env[name] = value;
  }
  return env;
}

/** Runs the plugin once and waits for its end. */
export async function callPlugin(call: PluginCall): Promise<PluginAnswer> {
  const [command, args] = call.nodeNetns === undefined
    ? [call.plugin, []]
    : ["nsenter", [`--net=${netnsPath(call.nodeNetns)}`, call.plugin]];
  const started = performance.now();
  const child = new Deno.Command(command, {
    args,
    env: environment(call),
    clearEnv: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify(call.config)))
    .then(() => writer.close())
    // A plugin that refuses early does not read its input.
    .catch((error) => {
      if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
    });
  const { code, stdout, stderr } = await child.output();
  const wallMs = performance.now() - started;
  const text = new TextDecoder();
  return {
    code,
    stdout: text.decode(stdout),
    stderr: text.decode(stderr),
    wallMs,
  };
}

/** What coild says when no block came within `--block-request-timeout`, or no address from EC2. */
const LATE = /no block came within|EC2 has not granted one yet/;

/** Whether a call was refused because there was no address within coild's time, by what coild said. */
export function isLate(text: string): boolean {
  return LATE.test(text);
}

/**
 * CNI ADD as a kubelet has it: once more whenever there was no address within
 * coild's time, which is printed. The answer's time is that of all calls
 * together. Any other refusal, of a coild that is not ready or does not answer,
 * too, is returned.
 *
 * @throws {Error} with the plugin's answer when there is none at the end
 */
export async function addPatiently(
  call: Omit<PluginCall, "command">,
): Promise<PluginAnswer> {
  const started = performance.now();
  const answer = await eventually("the end of an ADD", async () => {
    const answer = await callPlugin({ ...call, command: "ADD" });
    if (answer.code === 0 || !isLate(answer.stdout)) return answer;
    // deno-lint-ignore no-console -- more than one call is to be seen
    console.warn(`ADD of ${call.sandbox?.pod} comes again: ${answer.stdout}`);
    throw new Error(answer.stdout);
  });
  return { ...answer, wallMs: performance.now() - started };
}
