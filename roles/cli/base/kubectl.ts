/** A container of a pod of Coil's. */
export interface CoilContainer {
  readonly namespace: string;
  readonly name: string;
  readonly container: string;
}

/** What came of a command in a pod. */
export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `coil ARGS` in a pod. */
export type Exec = (
  pod: CoilContainer,
  args: readonly string[],
) => Promise<Ran>;

/** How long one command may take, its second look included. */
const EXEC_MS = 30_000;

/** Runs commands in pods by kubectl, which has every way to log in that its user has. */
export function kubectlExec(
  { kubeconfig, context }: {
    readonly kubeconfig: string;
    readonly context: string;
  },
  program: string = "kubectl",
): Exec {
  const connection = [
    ...kubeconfig === "" ? [] : [`--kubeconfig=${kubeconfig}`],
    ...context === "" ? [] : [`--context=${context}`],
  ];
  return async ({ namespace, name, container }, args) => {
    const command = new Deno.Command(program, {
      args: [
        ...connection,
        ...["-n", namespace, "exec", name, "-c", container, "--", "coil"],
        ...args,
      ],
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
      signal: AbortSignal.timeout(EXEC_MS),
    });
    const { code, stdout, stderr } = await command.output();
    const decoder = new TextDecoder();
    return {
      code,
      stdout: decoder.decode(stdout),
      stderr: decoder.decode(stderr),
    };
  };
}

/** What kubectl and commands end with when they fail. */
export function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}
