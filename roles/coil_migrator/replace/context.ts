import type { KubeClient } from "../../../lib/kube/mod.ts";
import { count } from "../../../lib/flags/mod.ts";
import { CommandError, type Terminal } from "../../../lib/command/mod.ts";
import type { ReplaceValues } from "../command/flags.ts";
import {
  CLEAR_LINE,
  EvictionError,
  Patience,
  type ReplacementContext,
} from "../../../lib/eviction/mod.ts";
import { readSurvey, type Survey } from "../cluster/survey.ts";

export interface ReplaceOptions {
  readonly values: ReplaceValues;
  readonly client: KubeClient;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
  /** How often to look at a pod. Default 1 s. */
  readonly pollMs?: number;
}

export interface ReplaceContext extends ReplacementContext {
  readonly values: ReplaceValues;
  readonly terminal: Terminal;
}

/** Adds the patience that all requests of a replacement share. */
export function replaceContext(options: ReplaceOptions): ReplaceContext {
  const { values, terminal, signal, client, pollMs = 1_000 } = options;
  const patience = new Patience({
    timeoutMs: values["api-timeout"],
    signal,
    onTrouble: (message) =>
      terminal.err(`${terminal.isInteractive ? CLEAR_LINE : ""}${message}\n`),
  });
  return {
    values,
    terminal,
    signal,
    client,
    pollMs,
    patience,
    evictionTimeoutMs: values["eviction-timeout"],
    podTimeoutMs: values["pod-timeout"],
  };
}

/** Reads what there is, however long the API server takes. */
export async function patientSurvey(context: ReplaceContext): Promise<Survey> {
  return await context.patience.ask(() => readSurvey(context.client, context));
}

/** Adds to an error of a step how much is left, and how to go on. */
export async function withAdvice(
  context: ReplaceContext,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof EvictionError)) throw error;
    const { toReplace } = await patientSurvey(context);
    throw new CommandError(
      `${error.message}
${
        count(toReplace.length, "pod")
      } of v1 left. Put this right, and run the same command again: it goes on with the rest.`,
      { cause: error },
    );
  }
}
