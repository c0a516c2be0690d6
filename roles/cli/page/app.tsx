import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { formatAge } from "../../../lib/api/mod.ts";
import { Egresses } from "./egresses.tsx";
import { Nodes } from "./nodes.tsx";
import { type Chosen, Pools } from "./pools.tsx";
import { Problems } from "./problems.tsx";
import type { ClusterState } from "./state.ts";

const TABS = ["Problems", "Pools", "Nodes", "Egresses"] as const;
type Tab = typeof TABS[number];

/** What keys do. */
const KEYS = [
  ["1 2 3 4", "problems, pools, nodes, Egresses"],
  ["/", "search; Escape clears it"],
  ["arrow keys, Home, End, Page Up, Page Down", "move"],
  ["[ ]", "the pool before, the next pool"],
  ["n", "the next address that is found, or not as it should be"],
  ["c", "copy the command for the chosen problem"],
  ["t", "dark or light"],
  ["?", "this help"],
] as const;

/** How often ages are shown again. */
const AGES_MS = 10_000;

export function App({ state, isConnected }: {
  readonly state: ClusterState;
  /** Whether `coil ui` answers. */
  readonly isConnected: boolean;
}): VNode {
  const [tab, setTab] = useState<Tab>("Problems");
  const [query, setQuery] = useState("");
  const [hasHelp, setHelp] = useState(false);
  const search = useRef<HTMLInputElement>(null);
  const main = useRef<HTMLElement>(null);
  const now = useNow();
  const [, draw] = useState(0);
  const changeTheme = () => {
    setTheme();
    draw((n) => n + 1); // a canvas does not follow
  };
  const changeHelp = () => setHelp((has) => !has);
  useKeys({
    onTab: setTab,
    onSearch: () => search.current?.focus(),
    onFound: () => focusMain(main.current),
    onEscape: () => {
      setQuery("");
      setHelp(false);
      focusMain(main.current);
    },
    changeTheme,
    changeHelp,
  });
  useLayoutEffect(() => focusMain(main.current), [
    tab,
    state.status === undefined,
  ]);
  return (
    <>
      <header>
        <h1>Coil</h1>
        <span class="muted">{state.status?.cluster}</span>
        <Tabs state={state} chosen={tab} onChoose={setTab} />
        <input
          ref={search}
          type="search"
          placeholder="Search ( / )"
          aria-label="Search"
          value={query}
          onInput={(event) => setQuery(event.currentTarget.value)}
        />
        <button type="button" onClick={changeTheme} aria-label="Dark or light">
          ◐
        </button>
        <button type="button" onClick={changeHelp} aria-label="Keys">?</button>
      </header>
      <Stale state={state} isConnected={isConnected} now={now} />
      {hasHelp && <Help />}
      <main ref={main}>
        <Content state={state} tab={tab} query={query} now={now} />
      </main>
    </>
  );
}

/** Keys that do the same everywhere, from the first picture on. */
function useKeys(actions: {
  readonly onTab: (tab: Tab) => void;
  readonly onSearch: () => void;
  readonly onFound: () => void;
  readonly onEscape: () => void;
  readonly changeTheme: () => void;
  readonly changeHelp: () => void;
}): void {
  useLayoutEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const { key, target } = event;
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (key === "Escape") return actions.onEscape();
      if (target instanceof HTMLInputElement) {
        if (key === "Enter") actions.onFound();
        return;
      }
      const wanted = TABS[Number(key) - 1];
      if (wanted !== undefined) actions.onTab(wanted);
      else if (key === "/") actions.onSearch();
      else if (key === "?") actions.changeHelp();
      else if (key === "t") actions.changeTheme();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
}

function Tabs({ state, chosen, onChoose }: {
  readonly state: ClusterState;
  readonly chosen: Tab;
  readonly onChoose: (tab: Tab) => void;
}): VNode {
  return (
    <nav role="tablist">
      {TABS.map((name) => (
        <button
          key={name}
          type="button"
          role="tab"
          aria-selected={name === chosen}
          onClick={() => onChoose(name)}
        >
          {name} <span class="count">{countOf(name, state)}</span>
        </button>
      ))}
    </nav>
  );
}

/** What the chosen tab shows. */
function Content({ state, tab, query, now }: {
  readonly state: ClusterState;
  readonly tab: Tab;
  readonly query: string;
  readonly now: Date;
}): VNode {
  // It is kept while another tab is shown.
  const [chosen, setChosen] = useState<Chosen>(NOTHING);
  const { status, egresses } = state;
  if (status === undefined) return <p class="page">Reading the cluster …</p>;
  switch (tab) {
    case "Problems":
      return <Problems status={status} query={query} now={now} />;
    case "Pools":
      return (
        <Pools
          state={state}
          query={query}
          now={now}
          chosen={chosen}
          onChoose={setChosen}
        />
      );
    case "Nodes":
      return <Nodes state={state} query={query} />;
    case "Egresses":
      return <Egresses egresses={egresses} query={query} now={now} />;
  }
}

const NOTHING: Chosen = { pool: undefined, place: undefined };

function useNow(): Date {
  const [now, setNow] = useState(() => new Date());
  useEffect(() => {
    const timer = setInterval(() => setNow(new Date()), AGES_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** Keys go to what is shown. */
function focusMain(main: HTMLElement | null): void {
  main?.querySelector<HTMLElement>("[tabindex]")?.focus();
}

/** Dark if it is light, light if it is dark. */
function setTheme(): void {
  const { style } = document.documentElement;
  const isDark = style.colorScheme === ""
    ? matchMedia("(prefers-color-scheme: dark)").matches
    : style.colorScheme === "dark";
  style.colorScheme = isDark ? "light" : "dark";
}

function countOf(
  tab: Tab,
  { status, pools, nodes, egresses }: ClusterState,
): number | undefined {
  if (status === undefined) return undefined;
  const counts = {
    Problems: status.problems.length,
    Pools: pools.length,
    Nodes: nodes.length,
    Egresses: egresses.length,
  };
  return counts[tab];
}

/** Says that what is shown is old, and since when. */
function Stale({ state: { contact }, isConnected, now }: {
  readonly state: ClusterState;
  readonly isConnected: boolean;
  readonly now: Date;
}): VNode | null {
  if (!isConnected) {
    return (
      <p class="stale" role="alert">coil ui does not answer: has it ended?</p>
    );
  }
  if (contact.lostSince === undefined) return null;
  return (
    <p class="stale" role="alert">
      The API server does not answer; what is shown is{" "}
      {formatAge(contact.lostSince, now)} old
    </p>
  );
}

function Help(): VNode {
  return (
    <dl class="help">
      {KEYS.map(([keys, what]) => (
        <>
          <dt>{keys}</dt>
          <dd>{what}</dd>
        </>
      ))}
    </dl>
  );
}
