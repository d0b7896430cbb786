// Drives the real Pi's SessionManager for tests/interop/test_pi.py.
//   node driver.mjs read LIST     for each file named in LIST (one a line): opens it, prints one JSON object
//   node driver.mjs write FOLDER  makes session files there as Pi does, prints one JSON object for each
import { readFileSync } from "node:fs";
import { SessionManager } from "@earendil-works/pi-coding-agent";

function told(manager, file) {
  const entries = manager.getEntries();
  const labels = {};
  for (const entry of entries) {
    const label = manager.getLabel(entry.id);
    if (label) labels[entry.id] = label;
  }
  return {
    file,
    id: manager.getSessionId(),
    cwd: manager.getCwd(),
    name: manager.getSessionName() ?? null,
    leaf: manager.getLeafId(),
    entries: entries.map((entry) => entry.id),
    labels,
    context: manager.buildSessionContext(),
  };
}

function print(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

function read(list) {
  for (const file of readFileSync(list, "utf8").split("\n").filter(Boolean)) {
    try {
      print(told(SessionManager.open(file), file));
    } catch (error) {
      print({ file, error: String(error) });
    }
  }
}

const user = (text) => ({ role: "user", content: [{ type: "text", text }], timestamp: 1772442060000 });

function assistant(content, stopReason = "stop") {
  const cost = { input: 0.001, output: 0.002, cacheRead: 0, cacheWrite: 0, total: 0.003 };
  const usage = { input: 10, output: 20, cacheRead: 0, cacheWrite: 0, totalTokens: 30, cost };
  const model = { api: "anthropic-messages", provider: "anthropic", model: "claude-sonnet-4-5" };
  return { role: "assistant", content, ...model, usage, stopReason, timestamp: 1772442061000 };
}

const answer = (text) => assistant([{ type: "text", text }]);

function callTool(manager, number) {
  const id = `call_${number}`;
  manager.appendMessage(assistant([{ type: "toolCall", id, name: "bash", arguments: { command: "ls" } }], "toolUse"));
  const content = [{ type: "text", text: `file-${number}\u2028 ünïcode 🐦` }];
  const result = { role: "toolResult", toolCallId: id, toolName: "bash", content, isError: false, timestamp: 1772442062000 };
  return manager.appendMessage(result);
}

const makers = {
  plain(manager) {
    for (let turn = 0; turn < 5; turn++) {
      manager.appendMessage(user(`question ${turn}`));
      callTool(manager, turn);
      manager.appendMessage(answer(`answer ${turn}`));
    }
  },
  settings(manager) {
    manager.appendModelChange("openai", "gpt-5");
    manager.appendThinkingLevelChange("high");
    manager.appendMessage(user("with a model"));
    manager.appendMessage(answer("answered by another"));
    manager.appendThinkingLevelChange("low");
    manager.appendModelChange("openai", "gpt-5-mini");
  },
  branches(manager) {
    const first = manager.appendMessage(user("first"));
    manager.appendMessage(answer("one way"));
    manager.appendMessage(user("further that way"));
    manager.branch(first);
    const second = manager.appendMessage(answer("another way"));
    manager.appendMessage(user("further this way"));
    manager.branchWithSummary(second, "What was tried.", { readFiles: ["a"], modifiedFiles: [] }, false);
    manager.appendMessage(user("after the summary"));
    manager.branch(first);
    manager.appendMessage(answer("a third way"));
  },
  compacted(manager) {
    const kept = [];
    for (let turn = 0; turn < 6; turn++) {
      kept.push(manager.appendMessage(user(`question ${turn}`)));
      manager.appendMessage(answer(`answer ${turn}`));
    }
    manager.appendCompaction("What happened so far.", kept[4], 1234, { readFiles: [], modifiedFiles: ["b"] });
    manager.appendMessage(user("after the compaction"));
    const last = manager.appendMessage(answer("still here"));
    manager.appendCompaction("And more.", last, 2345);
    manager.appendMessage(user("after the second one"));
  },
  keptNothing(manager) {
    manager.appendMessage(user("gone"));
    manager.appendMessage(answer("gone too"));
    manager.appendCompaction("Everything.", null, 99, undefined, true);
    manager.appendMessage(user("anew"));
  },
  labels(manager) {
    const first = manager.appendMessage(user("first"));
    const reply = manager.appendMessage(answer("one"));
    manager.appendLabelChange(first, "start");
    manager.appendLabelChange(reply, "cleared later");
    manager.appendMessage(user("second"));
    manager.appendLabelChange(reply, undefined);
    manager.appendSessionInfo("A name");
    manager.appendMessage(answer("two"));
    manager.appendSessionInfo("Another name");
    manager.appendLabelChange(first, "the very start");
  },
  edits(manager) {
    const first = manager.appendMessage(user("a secret"));
    const reply = manager.appendMessage(answer("a long answer"));
    const result = callTool(manager, 1);
    manager.appendContextEdit(first, { content: "no secret" });
    manager.appendContextEdit(reply, { content: [{ type: "text", text: "short" }] });
    manager.appendContextEdit(result, null);
    manager.appendMessage(user("after the edits"));
  },
  others(manager) {
    manager.appendMessage({ role: "system", content: "You help.", sections: { rules: "Be brief." }, timestamp: 1 });
    manager.appendCustomEntry("state", { any: [1, 2.5, null, "x"] });
    manager.appendCustomMessageEntry("note", "told by an extension", false, { from: "test" });
    manager.appendMessage(user("look"));
    const shell = { command: "ls", output: "a\nb", exitCode: 1, cancelled: false, truncated: true, fullOutputPath: "/t" };
    manager.appendMessage({ role: "bashExecution", ...shell, timestamp: 1772442063000 });
    const hidden = { command: "pwd", output: "", exitCode: 0, cancelled: false, truncated: false };
    manager.appendMessage({ role: "bashExecution", ...hidden, excludeFromContext: true, timestamp: 1772442064000 });
    const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2, cost: { total: 0.5 } };
    manager.appendUsage("title", "openai", "gpt-5", usage, "a note");
    manager.appendMessage(answer("seen"));
  },
};

function write(folder) {
  for (const [name, make] of Object.entries(makers)) {
    const manager = SessionManager.create("/proj/demo", folder, { id: `pi-${name}` });
    make(manager);
    print(told(manager, manager.getSessionFile()));
  }
}

const [, , command, argument] = process.argv;
if (command === "read") read(argument);
else if (command === "write") write(argument);
else throw new Error(`unknown command ${command}`);
