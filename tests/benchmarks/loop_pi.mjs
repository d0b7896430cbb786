// The same work through Pi's own agent core; run by loop.py, in a folder where the package is installed.
import { Agent } from "@earendil-works/pi-agent-core";
import { createAssistantMessageEventStream } from "@earendil-works/pi-ai";

const sizes = JSON.parse(process.argv[1]);
const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } };
const model = { id: "bench", name: "bench", api: "scripted", provider: "scripted", baseUrl: "", reasoning: false,
  input: ["text"], cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, contextWindow: 0, maxTokens: 0 };
const message = (stopReason, content = []) => ({ role: "assistant", content, api: "scripted", provider: "scripted",
  model: "bench", usage, stopReason, timestamp: 0 });

function answer(play) {
  const stream = createAssistantMessageEventStream();
  queueMicrotask(() => play(stream));
  return stream;
}

function streaming(count) {
  return () => answer((stream) => {
    const block = { type: "text", text: "" };
    const partial = message("pending");
    stream.push({ type: "start", partial });
    partial.content.push(block);
    stream.push({ type: "text_start", contentIndex: 0, partial });
    for (let i = 0; i < count; i++) {
      block.text += "lorem ";
      stream.push({ type: "text_delta", contentIndex: 0, delta: "lorem ", partial });
    }
    stream.push({ type: "text_end", contentIndex: 0, content: block.text, partial });
    stream.push({ type: "done", reason: "stop", message: { ...partial, stopReason: "stop" } });
  });
}

function calling(count) {
  return (_model, context) => answer((stream) => {
    const partial = message("pending");
    stream.push({ type: "start", partial });
    if (context.messages.at(-1).role === "toolResult") {
      stream.push({ type: "done", reason: "stop", message: message("stop") });
      return;
    }
    for (let i = 0; i < count; i++) {
      const toolCall = { type: "toolCall", id: `c${i}`, name: "work", arguments: { n: i } };
      partial.content.push(toolCall);
      stream.push({ type: "toolcall_start", contentIndex: i, partial });
      stream.push({ type: "toolcall_end", contentIndex: i, toolCall, partial });
    }
    stream.push({ type: "done", reason: "toolUse", message: { ...partial, stopReason: "toolUse" } });
  });
}

const work = { name: "work", label: "work", description: "work",
  parameters: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
  execute: async () => ({ content: [{ type: "text", text: "ok" }], details: {} }) };

async function measure(streamFn, tools) {
  const agent = new Agent({ initialState: { model, tools }, streamFn });
  let events = 0;
  agent.subscribe(() => { events++; });
  const started = process.cpuUsage();
  await agent.prompt("go");
  const used = process.cpuUsage(started);
  return used.user + used.system;
}

const figures = {};
for (const [key, make, tools] of [["deltas", streaming, []], ["calls", calling, [work]]]) {
  for (const size of sizes[key]) {
    let least = Infinity;
    for (let round = 0; round < 3; round++) least = Math.min(least, await measure(make(size), tools));
    figures[`${key}:${size}`] = least / size;
  }
}
console.log(JSON.stringify(figures));
