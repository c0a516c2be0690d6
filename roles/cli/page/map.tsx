import type { VNode } from "preact";
import {
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "preact/hooks";
import type { BlockView, PoolView } from "../ui/view.ts";
import {
  CELL,
  INSET,
  LABEL_HEIGHT,
  type Layout,
  layoutOf,
  type Look,
  looksOf,
  MOVE_KEYS,
  moved,
  type MoveKey,
  PITCH,
  type Place,
  placeAt,
  sizeOf,
  type Tile,
  tilesBetween,
  TITLE_HEIGHT,
} from "./layout.ts";
import { isFoundHolder } from "./search.ts";
import { counted } from "./text.ts";

export interface MapProps {
  readonly pool: PoolView;
  readonly blocks: readonly BlockView[];
  readonly query: string;
  readonly chosen: Place | undefined;
  readonly onChoose: (place: Place | undefined) => void;
}

/** The blocks and addresses of a pool. Only what is seen is drawn, on a canvas that stays in its frame. */
export function PoolCanvas(props: MapProps): VNode {
  const { pool, blocks, query, chosen, onChoose } = props;
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [{ width, height }, setSize] = useState({ width: 0, height: 0 });
  const [top, setTop] = useState(0);
  const layout = useMemo(() => layoutOf(pool, blocks, width), [
    pool,
    blocks,
    width,
  ]);

  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return;
    const measure = () =>
      setSize({ width: element.clientWidth, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    if (canvas.current === null || width === 0) return;
    draw(canvas.current, { layout, top, width, height, query, chosen });
  });

  useEffect(() => {
    const tile = tileOf(layout, chosen);
    if (tile !== undefined) show(frame.current, tile, layout.height);
  }, [chosen?.block, chosen?.place]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (!isMove(event.key) || hasModifier(event)) return;
    event.preventDefault();
    onChoose(moved(layout, chosen, event.key));
  };
  const onClick = (event: MouseEvent) =>
    onChoose(placeAt(layout, event.offsetX, event.offsetY + top));

  return (
    <div
      class="map"
      ref={frame}
      tabIndex={0}
      role="application"
      aria-label={`Map of pool ${pool.row.name}: arrow keys go from address to address`}
      onKeyDown={onKeyDown}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <div class="map-all" style={{ height: `${layout.total}px` }}>
        <canvas ref={canvas} onClick={onClick} />
      </div>
    </div>
  );
}

function isMove(key: string): key is MoveKey {
  return MOVE_KEYS.some((move) => move === key);
}

function hasModifier(event: KeyboardEvent): boolean {
  return event.altKey || event.ctrlKey || event.metaKey;
}

function tileOf(layout: Layout, chosen: Place | undefined): Tile | undefined {
  return layout.tiles.find((tile) =>
    tile.kind === "block" && tile.block.name === chosen?.block
  );
}

function show(frame: HTMLElement | null, { y }: Tile, height: number): void {
  if (frame === null) return;
  const bottom = y + height + PITCH;
  if (y < frame.scrollTop) frame.scrollTop = Math.max(0, y - TITLE_HEIGHT);
  else if (bottom > frame.scrollTop + frame.clientHeight) {
    frame.scrollTop = bottom - frame.clientHeight;
  }
}

/** What a picture is drawn of. */
interface Picture {
  readonly layout: Layout;
  readonly top: number;
  readonly width: number;
  readonly height: number;
  readonly query: string;
  readonly chosen: Place | undefined;
}

/** The colours of the style sheet, as they are now. */
type Colours = Readonly<
  Record<Look | "text" | "muted" | "bad" | "focus", string>
>;

function coloursOf(element: Element): Colours {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(`--${name}`);
  return {
    free: colour("free"),
    used: colour("good"),
    reserved: colour("warn"),
    odd: colour("bad"),
    text: colour("text"),
    muted: colour("muted"),
    bad: colour("bad"),
    focus: colour("focus"),
  };
}

function draw(canvas: HTMLCanvasElement, picture: Picture): void {
  const { layout, top, width, height } = picture;
  const scale = devicePixelRatio;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  if (context === null) return;
  const colours = coloursOf(canvas);
  context.setTransform(scale, 0, 0, scale, 0, -top * scale);
  context.textBaseline = "top";
  context.font = "600 13px system-ui, sans-serif";
  context.fillStyle = colours.text;
  for (const { title, y } of layout.bands) {
    if (y + TITLE_HEIGHT >= top && y <= top + height) {
      context.fillText(title, INSET, y + 6);
    }
  }
  context.font = "11px system-ui, sans-serif";
  for (const tile of tilesBetween(layout, top, top + height)) {
    drawTile(context, tile, { ...picture, colours });
  }
}

function drawTile(
  context: CanvasRenderingContext2D,
  tile: Tile,
  picture: Picture & { readonly colours: Colours },
): void {
  const { layout: { width }, colours } = picture;
  const { x, y } = tile;
  if (tile.kind === "gap") {
    context.fillStyle = colours.muted;
    context.fillText(
      counted(tile.blocks, "free block"),
      x,
      y + LABEL_HEIGHT,
      width,
    );
    return;
  }
  const { block } = tile;
  const isBad = block.state === "unreadable";
  const half = width / 2 - 4;
  context.fillStyle = isBad ? colours.bad : colours.text;
  context.fillText(block.ipv4 ?? block.ipv6 ?? block.name, x, y + 2, half);
  context.fillStyle = colours.muted;
  context.textAlign = "right";
  const note = block.state === "active" ? block.node : block.state;
  context.fillText(note, x + width, y + 2, half);
  context.textAlign = "left";
  if (picture.layout.columns === 0) drawBar(context, block, tile, picture);
  else drawCells(context, block, tile, picture);
}

function drawCells(
  context: CanvasRenderingContext2D,
  block: BlockView,
  { x, y }: Tile,
  { layout: { columns }, colours, query, chosen }: Picture & {
    readonly colours: Colours;
  },
): void {
  const found = query === "" ? undefined : new Set(
    block.holders.filter((holder) => isFoundHolder(query, holder, block))
      .flatMap(({ places }) => places),
  );
  looksOf(block).forEach((look, place) => {
    const left = x + (place % columns) * PITCH;
    const upper = y + LABEL_HEIGHT + Math.floor(place / columns) * PITCH;
    context.globalAlpha = found === undefined || found.has(place) ? 1 : 0.25;
    context.fillStyle = colours[look];
    context.fillRect(left, upper, CELL, CELL);
    context.globalAlpha = 1;
    if (look === "odd") drawCross(context, left, upper, colours.text);
    if (chosen?.block === block.name && chosen.place === place) {
      drawFrame(context, [left, upper, CELL, CELL], colours.focus);
    }
  });
}

/** What is wrong has a sign besides its colour. */
function drawCross(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  colour: string,
): void {
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x + 2, y + 2);
  context.lineTo(x + CELL - 2, y + CELL - 2);
  context.moveTo(x + CELL - 2, y + 2);
  context.lineTo(x + 2, y + CELL - 2);
  context.stroke();
}

function drawBar(
  context: CanvasRenderingContext2D,
  block: BlockView,
  { x, y }: Tile,
  { layout: { width }, colours, chosen }: Picture & {
    readonly colours: Colours;
  },
): void {
  const isOdd = block.holders.some(({ state }) => state !== "ok");
  const upper = y + LABEL_HEIGHT;
  context.fillStyle = colours.free;
  context.fillRect(x, upper, width, CELL);
  context.fillStyle = isOdd ? colours.odd : colours.used;
  context.fillRect(x, upper, width * block.used / sizeOf(block), CELL);
  if (chosen?.block === block.name) {
    drawFrame(context, [x, upper, width, CELL], colours.focus);
  }
}

function drawFrame(
  context: CanvasRenderingContext2D,
  [x, y, width, height]: readonly [number, number, number, number],
  colour: string,
): void {
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.strokeRect(x - 1, y - 1, width + 2, height + 2);
}
