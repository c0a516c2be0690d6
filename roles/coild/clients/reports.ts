import { type Clock, systemClock } from "../../../lib/async/mod.ts";
import { type AttachmentKey, keyText } from "../../../lib/cni/mod.ts";
import type { Attachment } from "../calls/attachment.ts";
import {
  type ClientCondition,
  CONDITION_REASONS,
  type ConditionEnd,
  type ConditionReason,
} from "./conditions.ts";
import type { PodEvents } from "../observe/pod_events.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";

/** Before that, neither the begin of a condition nor its end has another Event on the same pod. */
const QUIET_MS = 5 * 60_000;

export interface EgressReportsOptions {
  readonly events: Pick<PodEvents, "record">;
  /** How long something has to last; each Event waits as long again at most, by chance. */
  readonly delayMs: number;
  readonly clock?: Clock;
  /** From 0 to 1. */
  readonly random?: () => number;
}

/** A client as it is. */
export interface ReportedState {
  readonly conditions: readonly ClientCondition[];
  /** What may be said of conditions that are over. */
  readonly ends?: readonly ConditionEnd[];
  /** What a new pod begins with is reported at once: it may be over soon, for just that reason. */
  readonly isNew?: boolean;
}

/** A condition, as it is and as its owner knows it. */
interface Report {
  /** As it is now, or was last. */
  condition: ClientCondition;
  /** What may be said of its end. */
  end: ConditionEnd | undefined;
  isSo: boolean;
  isTold: boolean;
  /** When its begin and its end were reported last. */
  beganMs: number;
  endedMs: number;
  /** Present while an Event waits. */
  timer: Disposable | undefined;
}

/**
 * Reports by Events on a client's pod when a condition begins or ends.
 *
 * A gateway that comes and goes concerns each of its clients at once. So what
 * passes within moments has no Event, the Events of what lasts are spread over
 * nodes and pods, and what comes again has its next Event only after minutes.
 */
export class EgressReports implements Disposable {
  readonly #options: EgressReportsOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  /** By attachment, then by condition. */
  readonly #reports = new Map<string, Map<string, Report>>();
  /** Why a pod cannot be made a client, by attachment. */
  readonly #refusals = new Map<string, ConditionReason>();

  constructor(options: EgressReportsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? Math.random;
  }

  /** How many clients have a condition of each reason now, reported or not. */
  get counts(): ReadonlyMap<ConditionReason, number> {
    const counts = new Map<ConditionReason, number>(
      CONDITION_REASONS.map((reason) => [reason, 0]),
    );
    for (const reports of this.#reports.values()) {
      const present = [...reports.values()].filter(({ isSo }) => isSo);
      for (const reason of new Set(present.map((r) => r.condition.reason))) {
        counts.set(reason, (counts.get(reason) ?? 0) + 1);
      }
    }
    for (const reason of this.#refusals.values()) {
      counts.set(reason, (counts.get(reason) ?? 0) + 1);
    }
    return counts;
  }

  /** Counts a pod that cannot be made a client; no longer without a reason. */
  refused(key: AttachmentKey, reason: ConditionReason | undefined): void {
    if (reason === undefined) this.#refusals.delete(keyText(key));
    else this.#refusals.set(keyText(key), reason);
  }

  /** Takes what is so now. */
  report(
    { key, pod }: Pick<Attachment, "key" | "pod">,
    { conditions, ends = [], isNew = false }: ReportedState,
  ): void {
    const reports = this.#reports.get(keyText(key)) ??
      new Map<string, Report>();
    const now = new Map(conditions.map((each) => [each.id, each]));
    for (const [id, condition] of now) {
      const report = reports.get(id) ?? unheardOf(condition);
      reports.set(id, Object.assign(report, { condition }));
    }
    const endings = new Map(ends.map((each) => [each.id, each]));
    for (const [id, report] of reports) {
      report.isSo = now.has(id);
      report.end = endings.get(id);
      this.#follow(pod, report, { delayMs: isNew ? 0 : this.#delayMs() });
      if (this.#isOver(report)) reports.delete(id);
    }
    // mutate: only frees memory.
    if (reports.size === 0) this.#reports.delete(keyText(key));
    else this.#reports.set(keyText(key), reports);
  }

  /** Forgets an attachment, and what has not been reported of it. */
  forget(key: AttachmentKey): void {
    this.#reports.get(keyText(key))?.forEach(cancel);
    this.#reports.delete(keyText(key));
    this.#refusals.delete(keyText(key));
  }

  /** Cancels all Events that wait. */
  [Symbol.dispose](): void {
    for (const reports of this.#reports.values()) reports.forEach(cancel);
    this.#reports.clear();
  }

  #delayMs(): number {
    return this.#options.delayMs * (1 + this.#random());
  }

  /** Sends the Event after the delay, and none when the condition is over before. */
  #follow(
    pod: NamespacedName,
    report: Report,
    { delayMs }: { readonly delayMs: number },
  ): void {
    if (report.isSo === report.isTold) return cancel(report);
    if (report.timer !== undefined) return;
    const lastMs = report.isSo ? report.beganMs : report.endedMs;
    const quietMs = lastMs + QUIET_MS - this.#clock.nowMs();
    const waitMs = Math.max(delayMs, quietMs);
    const say = () => this.#say(pod, report);
    if (waitMs <= 0) say();
    else report.timer = this.#clock.after(waitMs, say);
  }

  #say(pod: NamespacedName, report: Report): void {
    report.timer = undefined;
    report.isTold = report.isSo;
    const { events } = this.#options;
    if (report.isSo) {
      report.beganMs = this.#clock.nowMs();
      const { reason, message } = report.condition;
      events.record(pod, { type: "Warning", reason, message });
    } else if (report.end !== undefined) {
      report.endedMs = this.#clock.nowMs();
      const { reason, message } = report.end;
      events.record(pod, { type: "Normal", reason, message });
    }
  }

  /** Whether nothing of it is needed any longer. */
  #isOver({ isSo, isTold, beganMs, endedMs }: Report): boolean {
    const quietMs = Math.max(beganMs, endedMs) + QUIET_MS;
    return !isSo && !isTold && quietMs <= this.#clock.nowMs();
  }
}

function unheardOf(condition: ClientCondition): Report {
  const never = Number.NEGATIVE_INFINITY;
  return {
    condition,
    end: undefined,
    isSo: false,
    isTold: false,
    timer: undefined,
    beganMs: never,
    endedMs: never,
  };
}

function cancel(report: Report): void {
  report.timer?.[Symbol.dispose]();
  report.timer = undefined;
}
