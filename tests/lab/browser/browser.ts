import { TextLineStream } from "../lines.ts";
import { eventually } from "../wait.ts";
import { type BrowserEvent, DevTools } from "./devtools.ts";

/** Debian's Chromium without a window. */
const PROGRAM = "chromium-headless-shell";

const OPTIONS = [
  // Tests run as root, in which Chromium has no sandbox.
  "--no-sandbox",
  "--disable-gpu",
  "--disable-dev-shm-usage",
  "--disable-background-networking",
  "--hide-scrollbars",
  "--remote-debugging-port=0",
];

/** How a page is shown. */
export interface View {
  readonly width?: number;
  readonly height?: number;
  readonly scheme?: "light" | "dark";
}

/** A Chromium without a window, with a profile of its own. */
export class Browser implements AsyncDisposable {
  readonly #process: Deno.ChildProcess;
  readonly #profile: string;
  readonly #tools: DevTools;
  readonly #silenced: Promise<void>;

  private constructor(
    process: Deno.ChildProcess,
    profile: string,
    { tools, silenced }: {
      readonly tools: DevTools;
      readonly silenced: Promise<void>;
    },
  ) {
    this.#process = process;
    this.#profile = profile;
    this.#tools = tools;
    this.#silenced = silenced;
  }

  /** Starts it; names in `hosts` mean 127.0.0.1. */
  static async start(
    { hosts = [] }: { readonly hosts?: readonly string[] } = {},
  ): Promise<Browser> {
    const profile = await Deno.makeTempDir({ prefix: "coil-browser-" });
    const rules = hosts.map((host) => `MAP ${host} 127.0.0.1`).join();
    const process = new Deno.Command(PROGRAM, {
      args: [
        ...OPTIONS,
        `--user-data-dir=${profile}`,
        ...rules === "" ? [] : [`--host-resolver-rules=${rules}`],
        "about:blank",
      ],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const { url, silenced } = await urlOf(process.stderr);
    const tools = await DevTools.connect(url);
    return new Browser(process, profile, { tools, silenced });
  }

  /** Opens a page. */
  async open(url: string, view: View = {}): Promise<Page> {
    const { targetId } = await this.#tools.call<{ targetId: string }>(
      "Target.createTarget",
      { url: "about:blank" },
    );
    const { sessionId } = await this.#tools.call<{ sessionId: string }>(
      "Target.attachToTarget",
      { targetId, flatten: true },
    );
    const page = new Page(this.#tools, { targetId, sessionId });
    await page.prepare(view);
    await page.go(url);
    return page;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tools.call("Browser.close").catch(() => {});
    this.#tools[Symbol.dispose]();
    await this.#silenced;
    await this.#process.status;
    await Deno.remove(this.#profile, { recursive: true });
  }
}

/** Where it listens, which it says once; what it says after that is read over, until it ends. */
async function urlOf(
  stderr: ReadableStream<Uint8Array>,
): Promise<{ readonly url: string; readonly silenced: Promise<void> }> {
  const lines = stderr.pipeThrough(new TextLineStream());
  const said: string[] = [];
  const reader = lines.getReader();
  for (;;) {
    const { value } = await reader.read();
    if (value === undefined) {
      throw new Error(`${PROGRAM} has ended: ${said.join("\n")}`);
    }
    const [, url] = /^DevTools listening on (ws:\S+)$/.exec(value) ?? [];
    if (url === undefined) {
      said.push(value);
      continue;
    }
    reader.releaseLock();
    return { url, silenced: lines.pipeTo(new WritableStream()) };
  }
}

/** A page of the browser. */
export class Page implements AsyncDisposable {
  readonly #tools: DevTools;
  readonly #targetId: string;
  readonly #sessionId: string;
  /** What went wrong in it: exceptions, refused resources, violations of its policy. */
  readonly troubles: string[] = [];

  constructor(
    tools: DevTools,
    target: { readonly targetId: string; readonly sessionId: string },
  ) {
    this.#tools = tools;
    this.#targetId = target.targetId;
    this.#sessionId = target.sessionId;
    tools.listen((event) => this.#note(event));
  }

  /** Sets how it is shown, and begins to note its troubles. */
  async prepare(
    { width = 1200, height = 720, scheme = "light" }: View,
  ): Promise<void> {
    for (const domain of ["Page", "Runtime", "Log"]) {
      await this.#call(`${domain}.enable`);
    }
    const metrics = { width, height, deviceScaleFactor: 1, mobile: false };
    await this.#call("Emulation.setDeviceMetricsOverride", metrics);
    await this.#call("Emulation.setEmulatedMedia", {
      features: [{ name: "prefers-color-scheme", value: scheme }],
    });
  }

  /** Goes to a URL. */
  async go(url: string): Promise<void> {
    await this.#call("Page.navigate", { url });
  }

  /** What an expression gives in the page; it may be a promise. @throws {Error} when it throws */
  async evaluate<T>(expression: string): Promise<T> {
    const { result, exceptionDetails } = await this.#call<{
      readonly result: { readonly value: T };
      readonly exceptionDetails?: {
        readonly exception?: { readonly description?: string };
      };
    }>("Runtime.evaluate", {
      expression,
      returnByValue: true,
      awaitPromise: true,
    });
    if (exceptionDetails === undefined) return result.value;
    throw new Error(
      `"${expression}" fails in the page: ${exceptionDetails.exception?.description}`,
    );
  }

  /** Waits until the expression is true in the page. */
  async until(expression: string): Promise<void> {
    await eventually(
      expression,
      () => this.evaluate<boolean>(`Boolean(${expression})`),
    );
  }

  /** All text that it shows. */
  text(): Promise<string> {
    return this.evaluate("document.body.innerText");
  }

  /** Presses keys one after the other: names of keys, or characters. */
  async press(...keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      const text = key.length === 1 ? { text: key } : {};
      await this.#call("Input.dispatchKeyEvent", {
        type: "keyDown",
        key,
        ...text,
      });
      await this.#call("Input.dispatchKeyEvent", { type: "keyUp", key });
    }
  }

  /** A picture of it, PNG. */
  async screenshot(): Promise<Uint8Array> {
    const { data } = await this.#call<{ readonly data: string }>(
      "Page.captureScreenshot",
      { format: "png" },
    );
    return Uint8Array.fromBase64(data);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tools.call("Target.closeTarget", { targetId: this.#targetId });
  }

  #call<T>(method: string, params: object = {}): Promise<T> {
    return this.#tools.call(method, params, this.#sessionId);
  }

  #note({ method, sessionId, params }: BrowserEvent): void {
    if (sessionId !== this.#sessionId) return;
    if (method !== "Runtime.exceptionThrown" && method !== "Log.entryAdded") {
      return;
    }
    this.troubles.push(JSON.stringify(params));
  }
}
