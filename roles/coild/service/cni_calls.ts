import {
  abortable,
  onAbort,
  sleep,
  startTimer,
  TaskGroup,
} from "../../../lib/async/mod.ts";
import { ErrorCode, type Result } from "../../../lib/cni/mod.ts";
import { codeName, GrpcError, StatusCode } from "../../../lib/grpc/mod.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";
import { type Registry, withLogContext } from "../../../lib/telemetry/mod.ts";
import { CallError } from "../base/errors.ts";
import { CallsInFlight } from "../observe/calls_in_flight.ts";
import { toCallError } from "../observe/cni_errors.ts";
import { callFields, logFinished, requestFields } from "./call_log.ts";
import { CallMetrics } from "./call_metrics.ts";
import type { MethodName } from "./method_names.ts";

/** For calls that were ended to say so, and to undo what they did. */
export const LAST_WORDS_MS = 200;

export interface CallContext {
  /** Aborted when the caller no longer waits for the answer. */
  readonly signal: AbortSignal;
  /** How long the caller said that it would wait; undefined is for ever. */
  readonly remainingMs: number | undefined;
}

/** Handlers of calls: one method for each command of CNI. */
export interface CniMethods {
  add(request: CniRequest, context: CallContext): Promise<Result>;
  del(request: CniRequest, context: CallContext): Promise<void>;
  check(request: CniRequest, context: CallContext): Promise<void>;
  gc(request: CniRequest, context: CallContext): Promise<void>;
  status(request: CniRequest, context: CallContext): Promise<void>;
}

/** A call that has arrived, by either door. */
export interface IncomingCall {
  readonly method: MethodName;
  /** Returns the request. @throws {CallError} when it cannot be read */
  readonly read: () => CniRequest;
  /** Aborted when the caller has gone. */
  readonly signal: AbortSignal;
  /** How long the caller will wait from now on; undefined is for ever. */
  readonly remainingMs: number | undefined;
}

export interface CniCallsOptions {
  readonly methods: CniMethods;
  /** Where calls are counted. */
  readonly registry?: Registry;
  readonly inFlight?: CallsInFlight;
}

/**
 * Makes the calls of both doors, the plugin's and that of gRPC: with their
 * deadlines, their records in the log, and their metrics.
 */
export class CniCalls {
  readonly #methods: CniMethods;
  readonly #metrics: CallMetrics | undefined;
  readonly #inFlight: CallsInFlight;
  readonly #tasks = new TaskGroup();
  readonly #stop = new AbortController();

  constructor(
    { methods, registry, inFlight = new CallsInFlight() }: CniCallsOptions,
  ) {
    this.#methods = methods;
    this.#metrics = registry && new CallMetrics(registry);
    this.#inFlight = inFlight;
  }

  /**
   * Makes a call; the result of ADD. It ends when its deadline passes or its
   * caller goes; undoing goes on, and {@linkcode CniCalls.finish} waits for it.
   *
   * @throws {CallError} when it fails
   */
  async call(incoming: IncomingCall): Promise<Result | undefined> {
    const limit = new CallLimit(incoming, this.#stop.signal);
    const answer = Promise.withResolvers<Result | undefined>();
    this.#tasks.run(incoming.method, async () => {
      using _limit = limit;
      await this.#perform(incoming, { signal: limit.signal, answer });
    });
    return await abortable(answer.promise, limit.signal);
  }

  /** Ends: calls under way have a time to finish, and then a short one to undo what they did. */
  async finish(graceMs: number): Promise<void> {
    using _stop = startTimer(graceMs, () => this.#stop.abort());
    const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
    using _end = startTimer(graceMs + LAST_WORDS_MS, end);
    await Promise.race([this.#tasks.wait(), isOver]);
  }

  /** Gives the answer first: a record takes as long as some of the work. */
  async #perform(
    incoming: IncomingCall,
    { signal, answer }: {
      readonly signal: AbortSignal;
      readonly answer: PromiseWithResolvers<Result | undefined>;
    },
  ): Promise<void> {
    const { method, read, remainingMs } = incoming;
    const startedMs = performance.now();
    this.#metrics?.start(method);
    let fields = callFields(method, remainingMs);
    let error: CallError | undefined;
    try {
      const request = read();
      fields = { ...fields, ...requestFields(request) };
      const result = await withLogContext(
        fields,
        () =>
          this.#inFlight.track(
            { method, request },
            () => this.#run(method, request, { signal, remainingMs }),
          ),
      );
      signal.throwIfAborted();
      answer.resolve(result);
    } catch (thrown) {
      error = toCallError(thrown);
      answer.reject(error);
    }
    const elapsedMs = performance.now() - startedMs;
    await sleep(0);
    this.#metrics?.finish(method, {
      codeName: codeName(error?.status ?? StatusCode.OK),
      seconds: elapsedMs / 1000,
    });
    logFinished(fields, { elapsedMs, error });
  }

  async #run(
    method: MethodName,
    request: CniRequest,
    context: CallContext,
  ): Promise<Result | undefined> {
    const methods = this.#methods;
    switch (method) {
      case "Add":
        return await methods.add(request, context);
      case "Del":
        await methods.del(request, context);
        return undefined;
      case "Check":
        await methods.check(request, context);
        return undefined;
      case "Gc":
        await methods.gc(request, context);
        return undefined;
      case "Status":
        await methods.status(request, context);
        return undefined;
    }
  }
}

/** Ends a call when its deadline passes, its caller goes or the server stops. */
class CallLimit implements Disposable {
  readonly #abort = new AbortController();
  readonly #stack = new DisposableStack();
  readonly #method: MethodName;

  constructor(
    { method, signal, remainingMs }: IncomingCall,
    stop: AbortSignal,
  ) {
    this.#method = method;
    // mutate: a caller that gives up at its deadline may be the first to notice, by less than tests can measure.
    const endMs = performance.now() + (remainingMs ?? Infinity) - 1;
    const late = () =>
      this.#end(`No answer within ${remainingMs} ms`, "DEADLINE_EXCEEDED");
    if (remainingMs !== undefined) {
      this.#stack.use(startTimer(remainingMs, late));
    }
    this.#stack.use(onAbort(signal, () => {
      // gRPC's own timer may be the first to notice.
      const { reason } = signal;
      const isLate = reason instanceof GrpcError &&
        reason.code === StatusCode.DEADLINE_EXCEEDED;
      if (isLate || performance.now() >= endMs) late();
      else this.#end("Connection closed by the caller", "CANCELLED");
    }));
    this.#stack.use(
      onAbort(stop, () => this.#end("Server is stopping", "UNAVAILABLE")),
    );
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }

  #end(message: string, status: keyof typeof StatusCode): void {
    // The same call may well work next time; STATUS has a code of its own.
    const code = this.#method === "Status"
      ? ErrorCode.PLUGIN_NOT_AVAILABLE
      : ErrorCode.TRY_AGAIN_LATER;
    this.#abort.abort(
      new CallError(message, { status: StatusCode[status], code }),
    );
  }
}
