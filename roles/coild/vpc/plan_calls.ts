import { abortable, type Clock, withTimeout } from "../../../lib/async/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import {
  type Action,
  type EniCall,
  type EniOutcome,
  learn,
  type Pace,
} from "../../../lib/vpc/mod.ts";
import type { NodeAccount } from "../cloud/account.ts";
import type { CloudView } from "../cloud/view.ts";

const log = getLogger("vpc");

/** How long a stop waits for calls that were sent, within the grace of the daemon. */
const STOP_MS = 20_000;

export interface PlanCallsOptions {
  readonly account: NodeAccount;
  readonly view: CloudView;
  readonly clock: Clock;
  readonly onBegin: (action: Action) => void;
  readonly onEnd: (action: Action, outcome: EniOutcome) => void;
}

/** The calls of the plan: those under way, and lessons of those that ended. */
export class PlanCalls {
  readonly #options: PlanCallsOptions;
  readonly #open = new Set<Promise<void>>();
  #pace: Pace = new Map();
  #lastRefusal: unknown;

  constructor(options: PlanCallsOptions) {
    this.#options = options;
  }

  /** Lessons of calls that failed. */
  get pace(): Pace {
    return this.#pace;
  }

  /** The last refusal of EC2, until a call succeeds. */
  get lastRefusal(): unknown {
    return this.#lastRefusal;
  }

  /** Begins a call. After the signal it is not sent any longer; one that was sent goes on. */
  begin(action: Action, { signal }: { readonly signal: AbortSignal }): void {
    const { account, view, onBegin } = this.#options;
    const call: EniCall = { action };
    onBegin(action);
    log.info("Calling EC2", fieldsOf(action));
    view.begin(call);
    const done = account.perform(action, {
      groups: view.groups,
      signal,
      onError: (err) => {
        this.#lastRefusal = err;
        log.warn("EC2 refused or did not answer a call", {
          action: action.kind,
          err,
        });
      },
    }).then((outcome) => this.#ended(call, outcome))
      .finally(() => this.#open.delete(done));
    this.#open.add(done);
  }

  /** Waits for calls that were sent, for 20 s at the most. */
  async finish(): Promise<void> {
    const under = [...this.#open];
    if (under.length > 0) {
      log.info("Waiting for calls to EC2", { calls: under.length });
    }
    const ended = Promise.allSettled(under);
    await withTimeout(STOP_MS, (signal) => abortable(ended, signal))
      .catch(() => {}); // the time is over
  }

  #ended(call: EniCall, outcome: EniOutcome): void {
    const { clock, view, onEnd } = this.#options;
    const { action } = call;
    const now = clock.nowMs();
    view.end(call, { at: now, outcome });
    this.#pace = learn(this.#pace, { action, outcome }, {
      now,
      random: Math.random,
    });
    if (outcome.kind === "done") this.#lastRefusal = undefined;
    onEnd(action, outcome);
  }
}

function fieldsOf(action: Action): Record<string, unknown> {
  return action.kind === "unassign"
    ? { ...action, blocks: action.blocks.map(String) }
    : { ...action };
}
