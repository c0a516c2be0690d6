// The other half of the documents' commands.
import { testGroups } from "./docs_groups.ts";

testGroups("second");
