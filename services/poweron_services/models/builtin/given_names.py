"""Common first names in English and German texts, by which the built-in model recognises persons."""

from typing import Final

from poweron_services.models.builtin.vocabulary import words_in

GIVEN_NAMES: Final = words_in(
    """Aaron Ada Adam Adrian Agnes Ahmed Ahmet Aisha Alan Albert Alessandro Alex Alexander Alexandra Alexis Alfred
    Alice Alina Alison Allison Amanda Amelia Amina Amir Amy Ana Andrea Andreas Andrew Andrzej Andy Angela
    Angelika Angelo Anita Anja Anke Ann Anna Anne Annette Annika Anthony Antje Anton Antonia Antonio Arjun Armin
    Arne Arnold Arthur Asha Astrid Audrey August Axel Ayse Barbara Bastian Beat Beate Beatrice Ben Benjamin
    Bernd Bernhard Bernice Bert Beth Bettina Bianca Bill Birgit Björn Bob Boris Brandon Brenda Brian Brigitte
    Bruce Bruno Burkhard Camille Carl Carla Carlo Carlos Carmen Carol Carolin Caroline Carsten Catherine Cem
    Charles Charlotte Chen Chiara Chloe Chris Christa Christian Christiane Christina Christine Christoph
    Christopher Claire Clara Clark Claude Claudia Claus Clemens Colin Conrad Constanze Cornelia Craig Cynthia
    Dagmar Daniel Daniela Daniele Dave David Deborah Denis Dennis Derek Detlef Diana Diane Diego Dieter Dietmar
    Dirk Dominic Dominik Donald Donna Dora Doris Dorothea Dorothy Douglas Dylan Eberhard Eckhard Edgar Edith
    Eduard Edward Elena Eleanor Elias Elif Elisabeth Elizabeth Elke Ella Ellen Elliot Ellis Elsa Emil Emilia
    Emily Emma Emre Eric Erich Erik Erika Erin Ernst Esther Ethan Eugen Eva Evelyn Fabian Fabio Fatima Felicitas
    Felix Ferdinand Fiona Florian Frances Francesca Francesco Francis Frank Franz Franziska Fred Frederick Frida
    Frieda Friederike Friedrich Fritz Gabriel Gabriela Gabriele Gary Geoffrey Georg George Gerald Gerd Gerda
    Gerhard Gertrud Gina Giovanni Giulia Gisela Gloria Grace Graham Greg Gregor Greta Grit Guido Gunter Günter
    Günther Hannah Hanna Hannelore Hannes Hans Harald Harold Harriet Harry Hasan Heather Heidi Heike Heiko
    Heiner Heinrich Heinz Helen Helena Helene Helga Helmut Hendrik Henning Henri Henrik Henry Herbert Hermann
    Hilde Hildegard Holger Horst Howard Hubert Hugo Ian Ibrahim Ida Igor Ilona Ilse Ines Inga Inge Ingo Ingrid
    Irene Irina Iris Irma Isabel Isabella Isabelle Ivan Jack Jacob Jacqueline Jakob James Jan Jana Jane Janet
    Janina Jasmin Jason Javier Jean Jeff Jeffrey Jennifer Jenny Jens Jeremy Jerry Jessica Jim Joachim Joan
    Joanna Jochen Joe Joel Johann Johanna Johannes John Jonas Jonathan Jörg Jorge Josef Joseph Joshua José Joyce
    Juan Judith Judy Julia Julian Juliane Julie Julius Jun Jürg Jürgen Jutta Kai Karen Karin Karl Karla Karolin
    Karsten Kaspar Kate Katharina Katherine Kathleen Kathrin Katja Katrin Keith Kelly Ken Kenneth Kerstin Kevin
    Kim Kirsten Klara Klaus Konrad Konstantin Kristin Kristina Kurt Kyle Lara Larry Lars Laura Lauren Laurence
    Lea Lena Leo Leon Leonard Leonie Leslie Liam Lili Lilly Lina Linda Lisa Lorenz Louis Louisa Louise Luca
    Lucas Lucia Lucy Ludwig Luis Luisa Luise Lukas Lutz Lydia Lynn Magdalena Maik Malte Manfred Manuel Manuela
    Marc Marcel Marcella Marco Marcus Margaret Margarete Margot Maria Marian Marianne Marie Marina Mario Marion
    Marius Mark Marko Markus Marlene Martha Martin Martina Mary Mateo Mathias Matt Matteo Matthew Matthias
    Maurice Max Maximilian Maya Mehmet Melanie Melissa Mia Michael Michaela Michel Michelle Miguel Mike Mila
    Milan Mira Miriam Mohamed Mohammed Monica Monika Moritz Mustafa Nadia Nadine Nadja Nancy Natalie Natascha
    Nathan Nele Nicholas Nick Nicola Nicolas Nicole Niklas Nils Nina Noah Nora Norbert Norman Ola Olaf Ole Oleg
    Olga Oliver Olivia Omar Oscar Oskar Otto Owen Pamela Paola Pascal Patricia Patrick Paul Paula Pauline Pedro
    Peggy Pete Peter Petra Philip Philipp Pia Pierre Priya Rachel Rafael Rahel Rainer Ralf Ralph Ramona Raphael
    Raul Raymond Rebecca Regina Regine Regula Reinhard Reinhold Renate Renée Reto Ricardo Richard Rita Robert
    Roberto Robin Rodney Roger Roland Rolf Roman Romy Ron Ronald Ronny Rosa Rosemarie Rosmarie Rowan Roy Rudolf
    Rupert Ruth Ryan Sabine Sabrina Sally Sam Samantha Samir Samuel Sandra Sara Sarah Sascha Scott Sean
    Sebastian Selina Serena Sergio Sharon Sheila Sibylle Siegfried Sigrid Silke Silvia Simon Simone Sina Sofia
    Sofie Sonia Sonja Sophia Sophie Stefan Stefanie Steffen Stella Stephan Stephanie Stephen Steve Steven Stuart
    Susan Susanne Suzanne Sven Svenja Sybille Sylvia Tamara Tanja Tara Tatjana Ted Teresa Terry Theo Theodor
    Theresa Thilo Thomas Thorsten Tilman Tim Timo Timothy Tina Tobias Tom Tony Torsten Tracy Ulla Ulrich Ulrike
    Urs Ursula Ute Uwe Valentin Valentina Valeria Vanessa Vera Verena Veronica Veronika Victor Victoria Viktor
    Viktoria Vincent Viola Virginia Vivian Volker Walter Waltraud Wanda Wendy Werner Wilfried Wilhelm Will
    William Willi Wolf Wolfgang Xaver Yasmin Yusuf Yvonne Zoe Tomas Tomás Dev Ravi Raj Anil Sanjay Wei Ming Yuki
    Hiro Kenji Sakura Olu Chinedu Amara Kofi Fatou Jamal Leila Layla Yara Zainab Hassan Hussein Khalid Svetlana
    Natalia Dmitri Sergei Ivana Marek Piotr Katarzyna Agnieszka Zofia Goran Dragan Marija Inês João Rui Freya
    Søren Mette Pieter Willem Joost Anouk Pavel Petr Jiří Tomasz Luka Dario Silvio Enzo Gianni Jacques Luc
    Benoît François Françoise Chantal Céline Hélène Émilie Margaux Mathieu Guillaume Thierry Yves Marisol Folake
    Nell Rosie Molly Poppy Jade Ruby Isla Ava Mason Logan Aiden Jordan Taylor Morgan Casey Blake Gordon Malcolm
    Neil Nigel Clive Trevor Geoff Hazel Ivy Maud Edna Elsie Wilma Betty Barry Doug Ernest Floyd Gene Glenn Lloyd
    Lionel Marvin Melvin Milton Morris Nelson Randy Rick Rodrigo Ruben Russell Salvador Todd Travis Tyler Vernon
    Wayne Wesley Zachary Priscilla Dana Bess Paolo Luigi Giuseppe Rosanna Beatrix Annegret Anneliese Ansgar Arno
    Bärbel Benno Bodo Burghard Dorit Edeltraud Elfriede Ewald Friedhelm Gabi Gero Gottfried Gudrun Gustav Hedwig
    Heidrun Henriette Hubertus Irmgard Jost Jule Karlheinz Liselotte Lotte Mechthild Meike Nikolaus Ottmar
    Roswitha Rüdiger Sönke Tilo Traudel Uta Wiebke Wolfram"""
)
