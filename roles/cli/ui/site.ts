import { admit, type Door, guarded, refusal } from "./guard.ts";
import type { Feed } from "./feed.ts";
import script from "./gen/page.js" with { type: "text" };
import html from "./page.html" with { type: "text" };
import style from "./page.css" with { type: "text" };

/** Answers requests for the page, its parts and its events. */
export function serveSite(
  request: Request,
  { door, feed }: { readonly door: Door; readonly feed: Feed },
): Response {
  const path = admit(request, door);
  if (path instanceof Response) return path;
  switch (path) {
    case "":
      return guarded(html, "text/html; charset=utf-8");
    case "page.js":
      return guarded(script, "text/javascript; charset=utf-8");
    case "page.css":
      return guarded(style, "text/css; charset=utf-8");
    case "events":
      return guarded(feed.events(), "text/event-stream");
    default:
      return refusal(404, "there is nothing here");
  }
}
