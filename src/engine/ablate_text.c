/* What the ablation reads and asks, and what it says about when a technique is worth using. The texts are written
 * for this program: prose for perplexity, a story to be repeated, code to be edited, a schema. */
#include "ablate_impl.h"
#include <string.h>

const char ab_prose[] =
    "The ferry left the small harbour at six in the morning, when the fog still lay on the water and the lamps along "
    "the quay had not been put out. Few people travelled at that hour: two nurses on their way home, a farmer with a "
    "crate of young hens, and a boy who had been sent to buy spare parts for a pump. The captain knew all of them by "
    "name. He had sailed the same route for twenty-six years and could have found the narrow passage between the "
    "islands with his eyes closed, as he liked to say, although he had never tried it.\n\n"
    "Halfway across, the engine began to knock. It was not a loud sound, but everybody on board heard it, because the "
    "sea was so quiet. The mechanic went below with a lamp and came back after ten minutes with oil on his sleeves. A "
    "bearing was worn, he explained; it would hold if they went slowly, and it would not hold if they did not. So the "
    "ferry crept forward through the fog, and the passengers, who had nothing else to do, began to talk with each "
    "other. The farmer told the nurses how to keep a fox away from a hen house. The boy asked what a bearing was. The "
    "mechanic drew one for him on the back of a ticket, and showed how the balls roll between two rings so that "
    "nothing has to slide.\n\n"
    "Machines of every kind depend on such small parts, and on the attention of those who look after them. A bridge "
    "carries its load because somebody once calculated how far a beam may bend, and because somebody else paints it "
    "every few years before the rust goes deep. A hospital works at night because the laundry was done in the "
    "afternoon. When everything goes well, none of this can be seen. We notice the water supply only when the tap "
    "stays dry, and the road only when there is a hole in it. Good maintenance is invisible, and that is why it is so "
    "often the first thing to be cut when money is short.\n\n"
    "In the nineteenth century the inspectors of steam boilers learned this in a hard way. Boilers exploded, and "
    "people died, because owners saved on plates, valves and water gauges. After a number of terrible accidents the "
    "manufacturers founded societies of their own, whose engineers visited each factory and tested each boiler under "
    "pressure. The number of explosions fell within a few years. It was not a new invention that brought the change, "
    "but the habit of measuring regularly, writing the numbers down, and comparing them with those of the year before. "
    "A crack grows slowly at first. Whoever looks at it every month can see that it grows; whoever looks at it once "
    "sees only a crack.\n\n"
    "The same is true of programs. A service that answers in a fifth of a second today may need half a second next "
    "spring, and nobody will be able to say when it happened, since each single change made it only a little slower. "
    "If the time of every answer is recorded, the moment can be found in a minute. If it is not, people argue about it "
    "for weeks. Measuring costs something, of course: a clock has to be read, a number has to be stored, a person has "
    "to look at the curve. But it costs far less than guessing, and it has another advantage, which is often "
    "forgotten. It tells you when you may stop. Work on speed has no natural end; only a number can say that it is "
    "fast enough.\n\n"
    "Towards eight o'clock the fog lifted, and the passengers saw the church tower of the larger island, much nearer "
    "than they had expected. The captain reduced the speed even further and brought the ferry to the pier as gently as "
    "if it carried glass. On the quay the boy thanked the mechanic for the drawing and ran to the workshop, because he "
    "was late. The nurses walked up the hill. The farmer waited until the crane had lifted his crate, counted the hens "
    "through the slats, and found that there was one more than before: during the crossing, one of them had laid an "
    "egg, and he had counted it in his excitement. He laughed about it so loudly that the gulls flew up from the roof "
    "of the ticket office, and then he gave the egg to the captain, who had it for breakfast.\n\n"
    "The new bearing arrived on Thursday with the mail boat. It weighed less than a kilogram and cost less than a "
    "tank of fuel. The mechanic fitted it in an afternoon, wrote the date and the hours of the engine into his book, "
    "and hung the old one on a nail above the workbench, where eleven others were hanging already. Visitors sometimes "
    "took them for a collection. For him they were a calendar.\n";

const char ab_copy_text[] =
    "The old lighthouse keeper wrote in his journal every evening. On Monday he noted the wind, the height of the "
    "waves "
    "and the number of ships that had passed since dawn. On Tuesday a storm came from the west and the lamp burned "
    "all "
    "night. On Wednesday two fishermen brought him bread, salted fish and a letter from his sister, who lived in the "
    "harbour town and had not visited him for eleven years.";

const char ab_code_text[] =
    "def area(shape):\n    if shape.kind == 'circle':\n        return 3.14159 * shape.radius * shape.radius\n"
    "    if shape.kind == 'square':\n        return shape.side * shape.side\n    if shape.kind == 'triangle':\n"
    "        return 0.5 * shape.base * shape.height\n    raise ValueError(shape.kind)\n";

const char ab_json_schema[] =
    "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"name\",\"age\",\"city\",\"married\","
    "\"hobbies\"],"
    "\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":20},\"age\":{\"type\":\"integer\",\"minimum\":1,"
    "\"maximum\":99},\"city\":{\"type\":\"string\",\"maxLength\":20},\"married\":{\"type\":\"boolean\"},\"hobbies\":"
    "{\"type\":\"array\",\"minItems\":2,\"maxItems\":4,\"items\":{\"type\":\"string\",\"maxLength\":16}}}}";

static const struct { const char *technique, *when, *when_not;
} advice[] = {
    { "kv_cache", "always: without it every token computes the whole text again",
      "never; when its memory is short, take smaller KV types or pages before giving it up" },
    { "attention", "always; it matters most for long prompts, where the matrix of scores no longer fits the caches",
      "never: prompts of a few dozen tokens gain little, and lose nothing" },
    { "fusion", "always; it matters most where single operators are small: small models, one request at a time",
      "never, but for looking at operators one by one" },
    { "weights",
      "decode is limited by reading weights: 8 bits almost without loss, 4 bits where memory or speed decides",
      "4 bits where the answers' quality must be that of the original: measure it with hayate eval kl" },
    { "activations", "with quantised weights: prompts are limited by arithmetic, and int8 products are the fastest",
      "where logits must be those of the original to many digits" },
    { "kv_type", "long contexts or many requests at once: keys and values outgrow the weights",
      "short contexts; Q4 where the answers' quality matters" },
    { "paged", "always with more than one request: nobody reserves what is not used",
      "one request that fills the whole context gains nothing" },
    { "prefix_cache", "system prompts, few-shot examples, long chats, many questions about one document",
      "prompts that have nothing in common; tenants that must not share (they do not)" },
    { "chunked_prefill", "answers are being read while long prompts arrive: the gaps between their tokens stay short",
      "only throughput counts, or prompts are short: larger chunks compute a prompt a little faster" },
    { "batching", "several users: weights are read once for all of them",
      "one user; each answer becomes slower the more there are beside it" },
    { "speculation",
      "text that repeats what is in the prompt (copying, editing, code, JSON), or a good small model beside a "
      "large one",
      "free chat at high temperature, small models, or many requests at once: it then stops by itself" },
    { "threads", "prompts: as many as there are cores; decoding: until memory is the limit",
      "cores shared with other work, or a quota: threads that are stopped hold up all others" },
    { "huge_pages", "the kernel offers them (madvise or always): fewer page-table look-ups while weights are read",
      "the kernel says never, or memory is too fragmented to have any" },
};

void ab_when(const char *technique, const char **when, const char **when_not)
{
    *when = *when_not = "";
    for (size_t i = 0; i < HY_COUNT(advice); i++)
        if (strcmp(advice[i].technique, technique) == 0) {
            *when = advice[i].when;
            *when_not = advice[i].when_not;
        }
}
