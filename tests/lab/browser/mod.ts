/**
 * A real browser for tests of pages.
 *
 * @module
 */
export { Browser, type Page, type View } from "./browser.ts";
