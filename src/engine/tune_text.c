/* What `hayate tune` measures with: prose for long prompts and for perplexity, and prompts of the kinds that people
 * send. */
#include "tune.h"

const char hy_tune_text[] =
    "The ferry to the island leaves twice a day in winter, once before the light and once after it. In the cabin "
    "the windows are wet from the breath of the passengers, and somebody has wiped a small round hole through "
    "which the harbour can be seen growing smaller. A woman with a basket of eggs sits beside the engine room "
    "because it is warm there. She has carried eggs across this water for thirty years, and in all that time, "
    "she says, only one of them was broken, and that one by a child who wanted to know whether it was "
    "real.\n\nThe island has four villages, a school, two churches that do not speak to each other, and a "
    "weather station. The station was built after a storm that nobody had foreseen took eleven boats in a single "
    "night. Since then a man has climbed the hill every three hours, read the instruments, and sent the numbers "
    "to the mainland. The present observer is called Anselm. He began the work when he was nineteen, and he "
    "keeps two books: one for the numbers, and one for what he saw while he wrote them down. The second book is "
    "much longer. It tells of geese that came a month too early, of a whale in the bay, of the year when the "
    "frost lasted into May and the apple trees stood white with ice instead of flowers.\n\nMeasuring, he "
    "explains to the children who visit him, is a way of paying attention. A thermometer does not know whether "
    "the day was good; it knows only how warm it was at the height of a man's head, in the shade, when somebody "
    "cared to look. But if you look every day at the same hour, and write it down without hoping for anything, "
    "then after some years the numbers begin to speak. They say that the springs come earlier now, that the dry "
    "months are drier, and that the great storms no longer keep to the autumn. One child asks how he can be "
    "sure. He takes down a book from his first year and lets her read a page aloud, and then the same page from "
    "last year. The others listen. For a while nobody says anything, and the only sound is the small wheel of "
    "the wind gauge turning above the roof.\n\nIn the afternoon the teacher walks back with the children along "
    "the cliff. The path is narrow, so they go one behind the other, the smallest first, because the one in "
    "front decides how fast everybody can walk. It is a rule that the teacher learned from her grandfather, who "
    "led donkeys over the mountains, and she has found that it is true of many other things. A letter takes as "
    "long as the slowest part of its way. A soup is ready when the hardest vegetable is soft. When a task is "
    "shared among many hands, it is finished when the last hand is finished, and so it helps little to hurry the "
    "quick ones; it is better to give them a part of what the slow one carries. The children are used to such "
    "sentences. They look for stones with holes in them, which are said to bring luck, and they argue about "
    "whether a stone with two holes brings twice as much.\n\nThat evening the wind turns to the north. In the "
    "larger church the bell rope swings by itself, and the sexton ties it to a hook. Anselm climbs the hill with "
    "a lantern, although he knows the way in the dark, because his wife likes to see the light move up the slope "
    "and stop, and after some minutes move down again. The pressure has fallen by nine units since noon. He has "
    "seen such a fall only four times. He writes the number into the first book, and under it the time, and then "
    "he sits down at the old transmitter and calls the mainland. The answer is slow to come. While he waits he "
    "opens the second book and writes: the sea is quite flat now, and there are no birds. He reads the sentence "
    "again and adds nothing to it. Then the voice on the other side asks him to repeat the last number, and he "
    "repeats it, and the voice is silent for a moment and thanks him. Within the hour the boats along the whole "
    "coast are called home.\n\nThe storm came before midnight. It tore the roof from the boat shed and laid the "
    "tallest of the poplars across the road, it broke every window on the western side of the school, and it "
    "moved a stone of the harbour wall that four horses had once brought there. But in the morning, when the "
    "ferry did not come and the people stood together on the quay and counted, nobody was missing. The woman "
    "with the basket had spent the night on the mainland. She came two days later, with the first crossing, and "
    "sat beside the engine room as always. When they asked her whether she had been afraid, she said that she "
    "had been busy: she had held the basket on her knees all night, in the kitchen of a stranger, and in the "
    "morning she had made breakfast for everybody in the house, since it had seemed to her that for once the "
    "eggs were needed where they were.\n";

const char *const hy_tune_task[4] = {
    /* a question */
    "A traveller has three days in a town by the sea and likes music, markets and long walks. Write a short plan "
    "for the three days, with one sentence for each morning, afternoon and evening.\n\nDay one, morning:",
    /* a text to be written again */
    "The meeting of the garden club begins at seven in the evening in the small hall behind the library. Please "
    "bring a chair, a cup and one plant that you would like to exchange. Those who cannot come may leave their "
    "plants with Mrs Abara at the bakery before noon.\n\nThe same text once more, word for word:\n\nThe meeting "
    "of the garden club begins at",
    /* code with a name changed */
    "def total(prices, rate):\n    result = 0\n    for price in prices:\n        if price > 0:\n            "
    "result += price * rate\n    return round(result, 2)\n\n# the same function with `amount` in the place of "
    "`price`\ndef total(amounts, rate):\n    result = 0\n",
    /* JSON */
    "[{\"name\": \"Ada\", \"city\": \"Oslo\", \"age\": 36, \"languages\": [\"Norwegian\", \"French\"]},\n "
    "{\"name\": \"Bela\", \"city\": \"Pecs\", \"age\": 51, \"languages\": [\"Hungarian\"]},\n {\"name\": "
    "\"Chike\", \"city\": \"Enugu\", \"age\": 24, \"languages\": [\"Igbo\", \"English\"]},\n {\"name\":",
};
