/** Time, timers and chance of this process, in the hands of a simulation. */

/** What takes their place. */
export interface SimulatedTime {
  nowMs(): number;
  /** From 0 to below 1. */
  random(): number;
  /** Starts a timer, one that repeats with `everyMs`; returns its number. */
  start(callback: () => void, ms?: number, everyMs?: number): number;
  /** Stops a timer by its number; what is none does nothing. */
  stop(id: unknown): void;
}

/** Takes the process' time, timers and chance over until disposed of. */
export function replaceTime(time: SimulatedTime): Disposable {
  const stop = (id: unknown) => time.stop(id);
  const replaced = {
    setTimeout: (callback: () => void, ms?: number) => time.start(callback, ms),
    setInterval: (callback: () => void, ms?: number) =>
      time.start(callback, ms, Math.max(1, ms ?? 0)),
    clearTimeout: stop,
    clearInterval: stop,
  };
  const stack = new DisposableStack();
  const replace = (target: object, name: string, value: unknown) => {
    const before = Object.getOwnPropertyDescriptor(target, name);
    Object.defineProperty(target, name, {
      value,
      configurable: true,
      writable: true,
    });
    stack.defer(() => {
      if (before !== undefined) Object.defineProperty(target, name, before);
      else Reflect.deleteProperty(target, name);
    });
  };
  for (const [name, value] of Object.entries(replaced)) {
    replace(globalThis, name, value);
  }
  replace(performance, "now", () => time.nowMs());
  replace(Math, "random", () => time.random());
  return stack;
}
